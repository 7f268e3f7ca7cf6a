"""`coordinate lock run`: a command that runs while a lock is held."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from coordinate import errors
from coordinate.cli.declared import DURATION, argument, command, option
from coordinate.cli.run import started, stop
from coordinate.cli.shared import Call, Exit

if TYPE_CHECKING:
    from coordinate.records import Lease
    from coordinate.service import Coordinator

LOST = (errors.StaleClaim, errors.NotFound, errors.Held)


@command("run", example="coordinate lock run integrate -- git merge feature")
@argument("name")
@option("--wait", type=DURATION, default="30s", show_default=True, help="Wait so long for it.")
@option("--ttl", type=DURATION, default="60s", show_default=True, help="Its length; renewed at each third.")
@option("--project", default="default", show_default=True, help="In which project.")
@argument("words", nargs=-1, required=True, metavar="-- CMD...")
def run(call: Call, name: str, wait: int, ttl: int, project: str, words: tuple[str, ...]) -> None:
    """Run CMD while holding a lock: renewed meanwhile, released on every exit; ends with CMD's exit status.

    Your session stays live meanwhile. CMD finds the fence in $COORDINATE_FENCE. When the lock is lost, CMD and all it
    started are stopped (TERM, after 10 s KILL) and the exit status is 4. Signals are handed on to CMD. Do not end this
    command with KILL: on Linux CMD alone gets a TERM then, elsewhere it goes on.
    """
    with call.board() as board:
        lock = board.acquire_lock(name=name, project=project, wait=wait, ttl_seconds=ttl)
        over = False
        try:
            with started(words, {"COORDINATE_FENCE": str(lock.fence)}) as child:
                status = _keep(call, board, lock, ttl, child)
                # Here a signal is still handed on to the command, which has ended: none keeps the lock from its end.
                over = True
                _give_back(call, board, lock)
        except BaseException:
            if not over:
                with suppress(errors.CoordinateError):  # what went wrong first is told
                    _give_back(call, board, lock)
            raise
    raise Exit(status if status >= 0 else 128 - status)


def _keep(call: Call, board: Coordinator, lock: Lease, ttl: int, child: subprocess.Popen[bytes]) -> int:
    """Renew until the command ends. A database away for longer than the lock lasts may have given it to another."""
    from coordinate.service import seconds_between_signs

    pause, ends = min(ttl / 3, seconds_between_signs(board)), time.monotonic() + ttl
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
        except errors.AWAY as error:
            if time.monotonic() > ends:
                raise _stopped(child, error) from None
            call.warn(f"the lock could not be renewed, trying again: {error.message}")


def _stopped(child: subprocess.Popen[bytes], error: errors.CoordinateError) -> errors.StaleClaim:
    stop(child)
    return errors.StaleClaim(
        f"the lock was lost while the command ran: {error.message}", hint="the command was stopped", **error.facts
    )


def _give_back(call: Call, board: Coordinator, lock: Lease) -> None:
    """Raises `StaleClaim` when another took it meanwhile: what it protects may not be as the command left it."""
    try:
        board.release_lock(name=lock.resource, fence=lock.fence, project=lock.project)
    except errors.AWAY as error:
        call.warn(f"the lock could not be given back, it ends by itself: {error.message}")
