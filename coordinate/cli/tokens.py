"""Tokens of the server's clients."""

from __future__ import annotations

from coordinate.cli.declared import DURATION, OneOf, argument, command, option
from coordinate.cli.shared import Call, given
from coordinate.states import TOKEN_ROLES


@command("create", example="coordinate token create alice --role worker --ttl 30d")
@argument("name")
@option("--role", type=OneOf(*TOKEN_ROLES), required=True, help="What it lets its bearer do.")
@option("--label", help="What it is for, to know it again.")
@option("--ttl", "ttl_seconds", type=DURATION, help="How long it lasts: 12h, 30d. Default: until it is revoked.")
def create(call: Call, name: str, **said: object) -> None:
    """Make a token that lets a client of `coordinate serve` in as this agent or human; its secret is told once."""
    with call.board() as board:
        call.show(board.create_token(name=name, **given(**said)))


@command("list", example="coordinate token list --format table")
@option("--before", type=int, metavar="ID", help="Go on with those before this one.")
@option("--limit", type=int, help="At most so many.")
def list_tokens(call: Call, **wanted: object) -> None:
    """List tokens, the newest first, with their last use; never a secret, which nobody has."""
    with call.board() as board:
        call.show(board.list_tokens(**given(**wanted)))


@command("revoke", example="coordinate token revoke 3")
@argument("token", type=int, metavar="ID")
def revoke(call: Call, token: int) -> None:
    """End a token at once."""
    with call.board() as board:
        call.show(board.revoke_token(token=token))
