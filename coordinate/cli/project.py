"""Projects and their settings."""

from __future__ import annotations

from coordinate.cli.declared import DURATION, argument, command, option
from coordinate.cli.shared import Call, given


@command("set", example="coordinate project set api --lease 30m --max-attempts 3")
@argument("name")
@option("--lease", type=DURATION, help="How long a claim lasts unless renewed: 90s, 15m, 2h.")
@option("--max-attempts", type=int, help="Leases that may expire before a task is BLOCKED.")
def set_defaults(call: Call, name: str, lease: int | None, max_attempts: int | None) -> None:
    """Set what claims and new tasks of a project get; what is not given goes back to the program's default."""
    with call.board() as board:
        call.show(board.set_project_defaults(name=name, **given(lease_seconds=lease, max_attempts=max_attempts)))


@command("list", example="coordinate project list")
def list_projects(call: Call) -> None:
    """List the projects and their settings, also closed ones, with since when they are."""
    with call.board() as board:
        call.show(board.list_projects())


@command("close", example="coordinate project close api")
@argument("name")
def close(call: Call, name: str) -> None:
    """Take a project's asks out of the human's sight, until something newer is asked there or a newer board begins.

    The answer says how many are hidden by it: they stay open, and tasks that wait for them wait on.
    """
    with call.board() as board:
        call.show({"project": name, "closed": True, "asks_hidden": board.close_project(name=name)})


@command("reopen", example="coordinate project reopen api")
@argument("name")
def reopen(call: Call, name: str) -> None:
    """Bring a closed project back into sight."""
    with call.board() as board:
        call.show({"project": name, "closed": False, "asks_open": board.reopen_project(name=name)})
