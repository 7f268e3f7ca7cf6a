"""Scope leases and named locks."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from coordinate import errors
from coordinate.cli.places import patterns_from_root
from coordinate.cli.run import started, stop
from coordinate.cli.shared import DURATION, Call, command, given, with_events

if TYPE_CHECKING:
    from coordinate.records import Lease, Scopes
    from coordinate.service import Coordinator

AWAY = (errors.Busy, errors.Unreachable, errors.OutcomeUnknown, errors.ReadOnly)
LOST = (errors.StaleClaim, errors.NotFound, errors.Held)

paths_argument = click.argument("patterns", nargs=-1, required=True, metavar="PATH...")
project_option = click.option("--project", help="In which project. Default: default.")
fence_option = click.option("--fence", "fences", type=int, multiple=True, help="A lease's fence, as its claim told it.")
mode_option = click.option("--mode", type=click.Choice(["exclusive", "shared"]), help="Default: exclusive.")
ttl_option = click.option("--ttl", "ttl_seconds", type=DURATION, help="How long it lasts unless renewed: 60s, 15m, 2h.")
limit_option = click.option("--limit", type=int, help="At most so many.")
before_option = click.option("--before", type=int, metavar="ID", help="The page before the lease with this id.")
of_option = click.option("--of", "held_by", metavar="NAME", help="Only what this agent holds.")
ended_option = click.option("--ended", is_flag=True, help="Also those that are over.")


@command("claim", example="coordinate lease claim src/api docs/api.md --task TASK-12@3")
@paths_argument
@mode_option
@click.option("--task", metavar="TASK-ID@ATTEMPT", help="Bind them to a held task: they end with its hold.")
@ttl_option
@click.option("--wait", type=DURATION, help="Wait so long for them: seconds, or 90s, 10m; then exit status 3.")
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
@click.option("--task", metavar="HANDLE", help="Of a task that you hold: its leases are yours.")
@fence_option
@project_option
def check(call: Call, patterns: tuple[str, ...], **wanted: Any) -> None:
    """Say whether paths could be claimed now, without claiming them; exit status 3 when another holds one."""
    with call.board() as board:
        _show(call, board.check_scopes(patterns=patterns_from_root(patterns), **given(**wanted)))


def _show(call: Call, answer: Scopes) -> None:
    call.show(answer)
    if not answer.granted:
        raise click.exceptions.Exit(errors.Held.exit_status)


@command("list", example="coordinate lease list --format table")
@project_option
@of_option
@click.option("--task", metavar="TASK-ID", help="Only what is bound to this task.")
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
@click.argument("patterns", nargs=-1, metavar="[PATH...]")
@fence_option
@click.option("--all", "every", is_flag=True, help="All scopes that the session holds.")
@project_option
def release(call: Call, patterns: tuple[str, ...], every: bool, **wanted: Any) -> None:
    """Release leases by fence, or the session's own by path, or all of them. Never everything by accident.

    Paths count from the folder you are in, as for `lease claim`.
    """
    with call.board() as board:
        call.show(board.release_leases(patterns=patterns_from_root(patterns), every=every, **given(**wanted)))


# --- locks ------------------------------------------------------------------------------------------------------------

lock_fence_option = click.option("--fence", type=int, help="As its grant told it; needed without a session.")


@command("acquire", example="coordinate lock acquire integrate --wait 30s --ttl 2m")
@click.argument("name")
@click.option("--wait", type=DURATION, help="Wait so long for it: seconds, or 90s, 10m.")
@ttl_option
@project_option
def acquire(call: Call, name: str, **wanted: Any) -> None:
    """Take a named lock. Keep the answer's fence: it gives the lock back and proves that it is yours."""
    with call.board() as board:
        call.show(board.acquire_lock(name=name, **given(**wanted)))


@command("renew", example="coordinate lock renew integrate --fence 9")
@click.argument("name")
@lock_fence_option
@ttl_option
@project_option
def renew_lock(call: Call, name: str, **wanted: Any) -> None:
    """Renew a lock to its length from now; no other call does. Exit status 4 when it was lost."""
    with call.board() as board:
        call.show(board.renew_lock(name=name, **given(**wanted)))


@command("release", example="coordinate lock release integrate --fence 9")
@click.argument("name")
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


@command("run", example="coordinate lock run integrate -- git merge feature")
@click.argument("name")
@click.option("--wait", type=DURATION, default="30s", show_default=True, help="Wait so long for it.")
@click.option("--ttl", type=DURATION, default="60s", show_default=True, help="Its length; renewed at each third.")
@click.option("--project", default="default", show_default=True, help="In which project.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def run(call: Call, name: str, wait: int, ttl: int, project: str, words: tuple[str, ...]) -> None:
    """Run CMD while holding a lock: renewed meanwhile, released on every exit; ends with CMD's exit status.

    Your session stays live meanwhile. CMD finds the fence in $COORDINATE_FENCE. When the lock is lost, CMD and all it
    started are stopped (TERM, after 10 s KILL) and the exit status is 4. Signals are handed on to CMD. Do not end this
    command with KILL: on Linux CMD alone gets a TERM then, elsewhere it goes on.
    """
    with call.board() as board:
        lock = board.acquire_lock(name=name, project=project, wait=wait, ttl_seconds=ttl)
        try:
            status = _run(call, board, lock, ttl, words)
        except BaseException:
            with suppress(errors.CoordinateError):  # what went wrong first is told
                _give_back(board, lock)
            raise
        try:
            _give_back(board, lock)
        except AWAY as error:
            call.warn(f"the lock could not be given back, it ends by itself: {error.message}")
    raise click.exceptions.Exit(status if status >= 0 else 128 - status)


def _run(call: Call, board: Coordinator, lock: Lease, ttl: int, words: tuple[str, ...]) -> int:
    from coordinate.service import seconds_between_signs

    pause = min(ttl / 3, seconds_between_signs(board))
    with started(words, {"COORDINATE_FENCE": str(lock.fence)}) as child:
        return _keep(call, board, lock, ttl, child, pause)


def _keep(call: Call, board: Coordinator, lock: Lease, ttl: int, child: subprocess.Popen[bytes], pause: float) -> int:
    """Renew until the command ends. A database away for longer than the lock lasts may have given it to another."""
    ends = time.monotonic() + ttl
    while True:
        try:
            return child.wait(timeout=pause)
        except subprocess.TimeoutExpired:
            asked = time.monotonic()
        try:
            board.renew_lock(name=lock.resource, fence=lock.fence, project=lock.project)
            ends = asked + ttl
        except LOST as error:
            raise _stopped(child, error) from None
        except AWAY as error:
            if time.monotonic() > ends:
                raise _stopped(child, error) from None
            call.warn(f"the lock could not be renewed, trying again: {error.message}")


def _stopped(child: subprocess.Popen[bytes], error: errors.CoordinateError) -> errors.StaleClaim:
    stop(child)
    return errors.StaleClaim(
        f"the lock was lost while the command ran: {error.message}", hint="the command was stopped", **error.facts
    )


def _give_back(board: Coordinator, lock: Lease) -> None:
    """Raises `StaleClaim` when another took it meanwhile: what it protects may not be as the command left it."""
    board.release_lock(name=lock.resource, fence=lock.fence, project=lock.project)
