"""Tokens: what lets a client of the server in, as which agent or human, in which role, until when.

The secret is told once and kept nowhere; the board has its hash. A secret holds 256 bits of chance, so a plain hash
cannot be guessed back. Who calls is what the token says, never what an argument says.
"""

from __future__ import annotations

from coordinate import events, inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidInput, NotAuthenticated, NotFound
from coordinate.records import NewToken, Token
from coordinate.states import TOKEN_ROLES

PREFIX = "coordinate_"


def create_token(
    tx: Tx, *, name: str, role: str, label: str = "", ttl_seconds: int | None = None, agent: str = ""
) -> NewToken:
    """Make a token for an agent or a human, who is made too if the name is new; the answer's `secret` is told once.

    `role` is one of worker, reviewer, manager (agents), human, admin (humans). Without `ttl_seconds` (60 or more) it
    lasts until it is revoked. Raises `InvalidInput` for an agent's role with a human's name, or the other way.
    """
    import hashlib  # slow to load, and no other call needs them
    import secrets

    name, role = inputs.agent(name, "name"), inputs.one_of(role, "role", TOKEN_ROLES)
    kind = "human" if role in ("human", "admin") else "agent"
    tx.one("agent_insert", name=name, kind=kind, role=None if kind == "human" else role)
    known = tx.the("agent", name=name)
    if known.kind != kind:
        raise InvalidInput(
            f"{name} is known as {known.kind}, and {role} is a role of {inputs.one(kind)}",
            hint="choose another name for it",
            field="name",
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    made = tx.the(
        "token_insert",
        hash=hashlib.sha256(secret.encode()).hexdigest(),
        agent=name,
        role=role,
        label=inputs.text(label, "label", limit=inputs.NAME_MAX),
        created_by=_by(agent),
        ttl_seconds=inputs.integer_or_none(ttl_seconds, "ttl_seconds", least=60, most=inputs.TTL_SECONDS_MAX),
    )
    row = tx.the("token", id=made.id)
    _record(tx, "token.created", row, _by(agent))
    return NewToken(Token(**row._asdict()), secret)


def list_tokens(tx: Tx, *, before: int | None = None, limit: int = 100) -> list[Token]:
    """Tokens, the newest first, live or not; `before` (an id) pages on."""
    before = inputs.integer_or_none(before, "before")
    return [Token(**row._asdict()) for row in tx.all("tokens_list", before=before, limit=inputs.limit(limit))]


def revoke_token(tx: Tx, *, token: int, agent: str = "") -> Token:
    """End a token at once: its next use is refused. Doing it twice changes nothing. Raises `NotFound`."""
    token, agent = inputs.integer(token, "token", least=1), _by(agent)
    row = tx.one("token_revoke", id=token)
    if row is not None:
        _record(tx, "token.revoked", row, agent)
    elif (row := tx.one("token", id=token)) is None:
        raise NotFound(f"there is no token {token}", hint="coordinate token list shows what there is")
    return Token(**row._asdict())


def who(tx: Tx, *, secret: str) -> tuple[Token, bool]:
    """The live token of a secret, and whether its use is due to be noted. Raises `NotAuthenticated`."""
    import hashlib

    # Whatever was shown has a hash, and one that is no secret's is found nowhere.
    row = tx.one("token_of_hash", hash=hashlib.sha256(str(secret).encode("utf-8", "replace")).hexdigest())
    if row is None:
        raise NotAuthenticated("the token is unknown, revoked or past its time", hint="ask for another")
    found = row._asdict()
    due = found.pop("due")
    return Token(**found), bool(due)


def note_use(tx: Tx, *, token: int) -> None:
    """Note that a token was used; once a minute is enough."""
    tx.run("token_used", id=token)


def any_live(tx: Tx) -> bool:
    """Whether any token lets somebody in."""
    row = tx.one("tokens_live")
    return bool(row and row.count)


def _record(tx: Tx, event_type: str, row: Row, agent: str) -> None:
    said = {"token": row.id, "agent": row.agent, "role": row.role, "label": row.label}
    events.append(tx, event_type, said, project="default", agent=agent, ref=row.agent)


def _by(agent: str) -> str:
    return inputs.agent(agent) if agent else "system"
