"""Scope leases and named locks."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import click

from coordinate import errors
from coordinate.cli.run import forwarding, stop
from coordinate.cli.shared import DURATION, Call, command, given

_project = click.option("--project", help="In which project. Default: default.")
_fences = click.option("--fence", "fences", type=int, multiple=True, help="A lease's fence, as its claim answered.")
_mode = click.option("--mode", type=click.Choice(["exclusive", "shared"]), help="Default: exclusive.")


@command("claim", example="coordinate lease claim src/api docs/api.md --task TASK-12@3")
@click.argument("patterns", nargs=-1, required=True, metavar="PATH...")
@_mode
@click.option("--task", metavar="TASK-ID@ATTEMPT", help="Bind them to a held task: they end with its hold.")
@click.option("--ttl", type=DURATION, help="How long they last unless renewed: 15m, 2h.")
@_fences
@_project
def claim(
    call: Call,
    patterns: tuple[str, ...],
    mode: str | None,
    task: str | None,
    ttl: int | None,
    fences: tuple[int, ...],
    project: str | None,
) -> None:
    """Claim paths or globs, all or none. A conflict answers who holds what until when, with exit status 3."""
    with call.board() as board:
        answer = board.claim_scopes(
            patterns=list(patterns),
            **given(mode=mode, task=task, ttl_seconds=ttl, fences=fences, project=project),
        )
        call.show(answer)
    if not answer.granted:
        raise click.exceptions.Exit(errors.Held.exit_status)


@command("check", example="coordinate lease check src/api/users.py")
@click.argument("patterns", nargs=-1, required=True, metavar="PATH...")
@_mode
@_fences
@_project
def check(
    call: Call, patterns: tuple[str, ...], mode: str | None, fences: tuple[int, ...], project: str | None
) -> None:
    """Say whether paths could be claimed now, without claiming them; exit status 3 when another holds one."""
    with call.board() as board:
        answer = board.check_scopes(patterns=list(patterns), **given(mode=mode, fences=fences, project=project))
        call.show(answer)
    if not answer.granted:
        raise click.exceptions.Exit(errors.Held.exit_status)


@command("list", example="coordinate lease list --format table")
@_project
@click.option("--of", "held_by", metavar="NAME", help="Only what this agent holds.")
@click.option("--task", metavar="TASK-ID", help="Only what is bound to this task.")
@click.option("--ended", is_flag=True, help="Also those that are over.")
@click.option("--before", type=int, metavar="ID", help="Page back from this lease.")
@click.option("--limit", type=int, help="At most so many.")
def list_scopes(
    call: Call,
    project: str | None,
    held_by: str | None,
    task: str | None,
    ended: bool,
    before: int | None,
    limit: int | None,
) -> None:
    """List live scope leases, the newest first."""
    with call.board() as board:
        call.show(
            board.list_leases(
                kind="scope",
                ended=ended,
                **given(project=project, held_by=held_by, task=task, before=before, limit=limit),
            )
        )


@command("renew", example="coordinate lease renew --fence 7 --fence 8")
@_fences
@click.option("--ttl", type=DURATION, help="To this length from now. Default: each to its own.")
def renew(call: Call, fences: tuple[int, ...], ttl: int | None) -> None:
    """Renew leases by their fences, never to less; exit status 4 when one was lost."""
    with call.board() as board:
        call.show(board.renew_leases(fences=list(fences), **given(ttl_seconds=ttl)))


@command("release", example="coordinate lease release src/api")
@click.argument("patterns", nargs=-1, metavar="[PATH...]")
@_fences
@click.option("--all", "every", is_flag=True, help="All that the session holds.")
@_project
def release(call: Call, patterns: tuple[str, ...], fences: tuple[int, ...], every: bool, project: str | None) -> None:
    """Release leases by fence, or the session's own by path, or all of them. Never everything by accident."""
    with call.board() as board:
        call.show(board.release_leases(every=every, **given(patterns=patterns, fences=fences, project=project)))


# --- locks ------------------------------------------------------------------------------------------------------------


@command("acquire", example="coordinate lock acquire integrate --wait 30 --ttl 2m")
@click.argument("name")
@click.option("--wait", type=float, metavar="SECONDS", help="Wait so long for it.")
@click.option("--ttl", type=DURATION, help="How long it lasts unless renewed: 60s, 5m.")
@_project
def acquire(call: Call, name: str, wait: float | None, ttl: int | None, project: str | None) -> None:
    """Take a named lock. Keep the answer's fence: it gives the lock back and proves that it is yours."""
    with call.board() as board:
        call.show(board.acquire_lock(name=name, **given(wait=wait, ttl_seconds=ttl, project=project)))


@command("release", example="coordinate lock release integrate --fence 9")
@click.argument("name")
@click.option("--fence", type=int, help="As its grant answered; without a session it is needed.")
@_project
def release_lock(call: Call, name: str, fence: int | None, project: str | None) -> None:
    """Give a lock back; a nested one by one level."""
    with call.board() as board:
        call.show(board.release_lock(name=name, **given(fence=fence, project=project)))


@command("list", example="coordinate lock list")
@_project
@click.option("--ended", is_flag=True, help="Also those that are over.")
@click.option("--limit", type=int, help="At most so many.")
def list_locks(call: Call, project: str | None, ended: bool, limit: int | None) -> None:
    """List held locks, the newest first."""
    with call.board() as board:
        call.show(board.list_leases(kind="lock", ended=ended, **given(project=project, limit=limit)))


@command("run", example="coordinate lock run integrate -- git merge feature")
@click.argument("name")
@click.option("--wait", type=float, default=30.0, show_default=True, metavar="SECONDS", help="Wait so long for it.")
@click.option("--ttl", type=DURATION, default="60s", show_default=True, help="Its length; renewed at each third.")
@_project
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def run(call: Call, name: str, wait: float, ttl: int, project: str | None, words: tuple[str, ...]) -> None:
    """Run CMD while holding a lock: renewed meanwhile, released on every exit; ends with CMD's exit status.

    CMD finds the fence in $COORDINATE_FENCE. When the lock is lost, CMD is stopped and the exit status is 4.
    """
    where = project or "default"
    with call.board() as board:
        held = board.acquire_lock(name=name, project=where, wait=wait, ttl_seconds=ttl)
        try:
            environment = os.environ | {"COORDINATE_FENCE": str(held.fence)}
            try:
                child = subprocess.Popen(words, env=environment)
            except OSError as error:
                raise errors.NotFound(f"{words[0]} cannot be run: {error.strerror}", hint="check it") from None
            with forwarding(child):
                status = _keep(call, board, held.fence, name, where, ttl, child)
        finally:
            with suppress(errors.StaleClaim, errors.NotFound, errors.Held):  # lost meanwhile, and said so
                board.release_lock(name=name, fence=held.fence, project=where)
    raise click.exceptions.Exit(status if status >= 0 else 128 - status)


def _keep(call: Call, board, fence: int, name: str, project: str, ttl: int, child) -> int:  # type: ignore[no-untyped-def]
    while True:
        try:
            return int(child.wait(timeout=ttl / 3))
        except subprocess.TimeoutExpired:
            pass
        try:
            board.renew_lock(name=name, fence=fence, project=project)
        except (errors.StaleClaim, errors.NotFound, errors.Held) as error:
            stop(child)
            raise errors.StaleClaim(
                f"the lock was lost while the command ran: {error.message}", hint="the command was stopped"
            ) from None
        except (errors.Busy, errors.Unreachable, errors.OutcomeUnknown, errors.ReadOnly) as error:
            call.warn(f"the lock could not be renewed, trying again: {error.message}")
