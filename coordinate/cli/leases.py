"""Scope leases and named locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinate import errors
from coordinate.cli.declared import DURATION, OneOf, argument, command, option
from coordinate.cli.places import patterns_from_root
from coordinate.cli.shared import Call, Exit, given, with_events

if TYPE_CHECKING:
    from coordinate.records import Scopes

paths_argument = argument("patterns", nargs=-1, required=True, metavar="PATH...")
project_option = option("--project", help="In which project. Default: default.")
fence_option = option("--fence", "fences", type=int, multiple=True, help="A lease's fence, as its claim told it.")
mode_option = option("--mode", type=OneOf("exclusive", "shared"), help="Default: exclusive.")
ttl_option = option("--ttl", "ttl_seconds", type=DURATION, help="How long it lasts unless renewed: 60s, 15m, 2h.")
limit_option = option("--limit", type=int, help="At most so many.")
before_option = option("--before", type=int, metavar="ID", help="The page before the lease with this id.")
of_option = option("--of", "held_by", metavar="NAME", help="Only what this agent holds.")
ended_option = option("--ended", is_flag=True, help="Also those that are over.")


@command("claim", example="coordinate lease claim src/api docs/api.md --task TASK-12@3")
@paths_argument
@mode_option
@option("--task", metavar="TASK-ID@ATTEMPT", help="Bind them to a held task: they end with its hold.")
@ttl_option
@option("--wait", type=DURATION, help="Wait so long for them: seconds, or 90s, 10m; then exit status 3.")
@fence_option
@project_option
@with_events
def claim(call: Call, patterns: tuple[str, ...], **wanted: Any) -> None:
    """Claim paths or globs, all or none. A conflict answers who holds what until when, with exit status 3.

    Paths count from the folder you are in, as with git: src/api covers all below it, src/**/*.py is a glob. The answer
    shows them from the root of the repository.
    """
    with call.board() as board:
        _show(call, board.claim_scopes(patterns=patterns_from_root(patterns), **given(**wanted)))


@command("check", example="coordinate lease check src/api/users.py")
@paths_argument
@mode_option
@option("--task", metavar="HANDLE", help="Of a task that you hold: its leases are yours.")
@fence_option
@project_option
def check(call: Call, patterns: tuple[str, ...], **wanted: Any) -> None:
    """Say whether paths could be claimed now, without claiming them; exit status 3 when another holds one."""
    with call.board() as board:
        _show(call, board.check_scopes(patterns=patterns_from_root(patterns), **given(**wanted)))


def _show(call: Call, answer: Scopes) -> None:
    call.show(answer)
    if not answer.granted:
        raise Exit(errors.Held.exit_status)


@command("list", example="coordinate lease list --format table")
@project_option
@of_option
@option("--task", metavar="TASK-ID", help="Only what is bound to this task.")
@ended_option
@before_option
@limit_option
def list_scopes(call: Call, ended: bool, **wanted: Any) -> None:
    """List live scope leases, the newest first."""
    with call.board() as board:
        call.show(board.list_leases(kind="scope", ended=ended, **given(**wanted)))


@command("renew", example="coordinate lease renew --fence 7 --fence 8")
@fence_option
@ttl_option
def renew(call: Call, fences: tuple[int, ...], ttl_seconds: int | None) -> None:
    """Renew leases by their fences, each to its own length from now, never to less; exit status 4: one was lost."""
    with call.board() as board:
        call.show(board.renew_leases(fences=list(fences), **given(ttl_seconds=ttl_seconds)))


@command("release", example="coordinate lease release src/api")
@argument("patterns", nargs=-1, metavar="[PATH...]")
@fence_option
@option("--all", "every", is_flag=True, help="All scopes that the session holds.")
@project_option
def release(call: Call, patterns: tuple[str, ...], every: bool, **wanted: Any) -> None:
    """Release leases by fence, or the session's own by path, or all of them. Never everything by accident.

    Paths count from the folder you are in, as for `lease claim`.
    """
    with call.board() as board:
        call.show(board.release_leases(patterns=patterns_from_root(patterns), every=every, **given(**wanted)))


# --- locks ------------------------------------------------------------------------------------------------------------

lock_fence_option = option("--fence", type=int, help="As its grant told it; needed without a session.")


@command("acquire", example="coordinate lock acquire integrate --wait 30s --ttl 2m")
@argument("name")
@option("--wait", type=DURATION, help="Wait so long for it: seconds, or 90s, 10m.")
@ttl_option
@project_option
def acquire(call: Call, name: str, **wanted: Any) -> None:
    """Take a named lock. Keep the answer's fence: it gives the lock back and proves that it is yours."""
    with call.board() as board:
        call.show(board.acquire_lock(name=name, **given(**wanted)))


@command("renew", example="coordinate lock renew integrate --fence 9")
@argument("name")
@lock_fence_option
@ttl_option
@project_option
def renew_lock(call: Call, name: str, **wanted: Any) -> None:
    """Renew a lock to its length from now; no other call does. Exit status 4 when it was lost."""
    with call.board() as board:
        call.show(board.renew_lock(name=name, **given(**wanted)))


@command("release", example="coordinate lock release integrate --fence 9")
@argument("name")
@lock_fence_option
@project_option
def release_lock(call: Call, name: str, **wanted: Any) -> None:
    """Give a lock back; a nested one by one level. Exit status 4 when it was lost before."""
    with call.board() as board:
        call.show(board.release_lock(name=name, **given(**wanted)))


@command("list", example="coordinate lock list")
@project_option
@of_option
@ended_option
@before_option
@limit_option
def list_locks(call: Call, ended: bool, **wanted: Any) -> None:
    """List held locks, the newest first."""
    with call.board() as board:
        call.show(board.list_leases(kind="lock", ended=ended, **given(**wanted)))
