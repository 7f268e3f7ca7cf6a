"""`coordinate run`: a command, with its claim kept alive for as long as it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from coordinate import errors, inputs
from coordinate.cli.shared import Call, as_path, command

if TYPE_CHECKING:
    from coordinate.service import Coordinator

# How long a command that lost its claim may take to end by itself.
STOP_SECONDS = 10.0
# Renew at least this often, however long the lease.
RENEW_SECONDS_MAX = 300.0

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LOST = (errors.StaleClaim, errors.Held, errors.InvalidState, errors.NotFound)


@command("run", example="coordinate run TASK-12@3 --agent alice -- make test")
@click.argument("handle", metavar="TASK-ID@ATTEMPT")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def run(call: Call, handle: str, words: tuple[str, ...]) -> None:
    """Run CMD and renew the lease while it runs; ends with CMD's exit status.

    When the claim is lost, CMD is stopped (TERM, after 10 s KILL) and the exit status is 4. stdin, stdout and stderr
    are CMD's own. The task stays yours: finish it with `task complete`.
    """
    with call.board() as board:
        board.keep_alive(handle=handle)  # before anything is started
        pause = _third_of_lease(board, handle)
        try:
            child = subprocess.Popen([as_path(word) for word in words])
        except OSError as error:
            raise errors.NotFound(f"{words[0]} cannot be run: {error.strerror}", hint="check the command") from None
        with forwarding(child):
            status = _keep(call, board, handle, child, pause)
    raise click.exceptions.Exit(status if status >= 0 else 128 - status)


def _keep(call: Call, board: Coordinator, handle: str, child: subprocess.Popen[bytes], pause: float) -> int:
    """Renew at every third of the lease until the command ends. A database away for a while is waited for."""
    while True:
        try:
            return child.wait(timeout=pause)
        except subprocess.TimeoutExpired:
            pass
        try:
            board.keep_alive(handle=handle)
        except LOST as error:
            stop(child)
            raise errors.StaleClaim(
                f"the claim was lost while the command ran: {error.message}",
                hint="the command was stopped; claim the next task",
                **error.facts,
            ) from None
        except (errors.Busy, errors.Unreachable, errors.ReadOnly, errors.OutcomeUnknown) as error:
            call.warn(f"the claim could not be renewed, trying again: {error.message}")


def _third_of_lease(board: Coordinator, handle: str) -> float:
    """A length, not a moment: our clock need not agree with the database's."""
    lease = board.view(task=inputs.handle(handle)[0], notes=0, history=0).task.lease_seconds
    return RENEW_SECONDS_MAX if lease is None else min(lease / 3, RENEW_SECONDS_MAX)


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a command that may not go on: TERM, and KILL for what does not listen."""
    child.terminate()
    try:
        child.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand signals on to the command, whose end is then ours. A terminal sends Ctrl-C to both by itself."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT or not _on_terminal():
            child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child.poll() is None:
            stop(child)


def _on_terminal() -> bool:
    return bool(sys.stdin) and sys.stdin.isatty()
