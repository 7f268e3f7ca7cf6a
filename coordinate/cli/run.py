"""`coordinate run`: a command, with its claim kept alive while it runs; and how such a command is looked after.

A command gets a process group of its own, and what ends it is sent to the whole group, so that what a shell, make or
npm started does not go on without the claim. On a terminal that group is in the foreground, as under a shell: Ctrl-C
and Ctrl-Z reach the command, and a stopped one stops us too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from coordinate import errors, inputs, signals
from coordinate.cli.declared import argument, command
from coordinate.cli.shared import Call, Exit, as_path

if TYPE_CHECKING:
    from coordinate.service import Coordinator

# How long a command that lost its claim may take to end by itself.
STOP_SECONDS = 10.0
# Renew at least this often, however long the lease.
RENEW_SECONDS_MAX = 300.0

_PR_SET_PDEATHSIG = 1

LOST = (errors.StaleClaim, errors.Held, errors.InvalidState, errors.NotFound)


@command("run", example="coordinate run TASK-12@3 --agent alice -- make test")
@argument("handle", metavar="TASK-ID@ATTEMPT")
@argument("words", nargs=-1, required=True, metavar="-- CMD...")
def run(call: Call, handle: str, words: tuple[str, ...]) -> None:
    """Run CMD and renew the lease while it runs; ends with CMD's exit status. Your session stays live meanwhile.

    CMD finds the handle in $COORDINATE_CLAIM, and your name and session where this command finds them. When the claim
    is lost, CMD and all it started are stopped (TERM, after 10 s KILL) and the exit status is 4. stdin, stdout and
    stderr are CMD's own. The task stays yours: finish it with `task complete`. Do not end this command with KILL: on
    Linux CMD alone gets a TERM then, elsewhere it goes on.
    """
    from coordinate.service import seconds_between_signs

    with call.board() as board:
        board.keep_alive(handle=handle)  # before anything is started
        task = board.view(task=inputs.handle(handle)[0], notes=0, history=0).task
        claim = handle if "@" in handle else task.handle or handle
        # A length, not a moment: our clock need not agree with the database's.
        third = (task.lease_seconds or RENEW_SECONDS_MAX) / 3
        pause = min(third, RENEW_SECONDS_MAX, seconds_between_signs(board))
        who = {"COORDINATE_AGENT": board.agent, "COORDINATE_SESSION": call.session or ""}
        with started(words, {"COORDINATE_CLAIM": claim, **who}) as child:
            status = _keep(call, board, claim, child, pause)
    raise Exit(status if status >= 0 else 128 - status)


def _keep(call: Call, board: Coordinator, handle: str, child: subprocess.Popen[bytes], pause: float) -> int:
    """Renew after each pause until the command ends. A database away for a while is waited for."""
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
        except errors.AWAY as error:
            call.warn(f"the claim could not be renewed, trying again: {error.message}")


# --- looking after a command ------------------------------------------------------------------------------------------


@contextmanager
def started(words: tuple[str, ...], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs, to be waited for; it is handed our signals, and whatever happens, it does not outlive this.

    Raises `NotFound` when it cannot be run.
    """
    terminal = _terminal()
    mask = signals.hold_back(signals.ENDING)  # until there is a command to hand them on to
    try:
        child = subprocess.Popen(
            [as_path(word) for word in words],
            env=os.environ | {name: as_path(value) for name, value in environment.items()},
            process_group=0 if os.name == "posix" else None,
            preexec_fn=_in_child(terminal, mask) if os.name == "posix" else None,  # noqa: PLW1509 - there is one thread
        )
    except OSError as error:
        signals.let_come(mask)
        raise errors.NotFound(f"{words[0]} cannot be run: {error.strerror}", hint="check the command") from None
    with _forwarding(child), _lending(terminal, child):
        signals.let_come(mask)
        try:
            yield child
        finally:
            if child.poll() is None:
                stop(child)


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a command that may not go on, and all it started: TERM, and KILL for what does not listen."""
    _signal(child, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    if _alive(child):
        _signal(child, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    if os.name != "posix":
        if number == signal.SIGTERM:  # a Ctrl-C reaches all of a console's programs by itself
            child.terminate()
        return
    with suppress(ProcessLookupError, PermissionError):  # all gone, or not ours any more
        os.killpg(child.pid, number)
        os.killpg(child.pid, signal.SIGCONT)  # what is stopped hears nothing


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether the command, or anything of its group, still runs."""
    running = child.poll() is None
    if os.name == "posix" and not running:
        try:
            os.killpg(child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
    return running


@contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand the signals that we get on to the command, whose end is then ours."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        _signal(child, number)

    before = {number: signal.signal(number, hand_on) for number in signals.ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- the terminal -----------------------------------------------------------------------------------------------------


def _terminal() -> int | None:
    """The stream that is the terminal whose foreground is ours to lend, if one is."""
    for stream in (0, 1, 2):
        with suppress(OSError, AttributeError):
            if os.tcgetpgrp(stream) == os.getpgrp():
                return stream
    return None


def _in_child(terminal: int | None, mask: set[int]) -> Callable[[], None]:
    """What the child does before it becomes the command: hear signals again; take the terminal, before it may read from
    it; and, on Linux, ask for a TERM should we be killed, who could not send it then."""
    prctl = _prctl()
    parent = os.getpid()

    def prepare() -> None:
        signals.let_come(mask)
        if terminal is not None:
            _give(terminal, os.getpid())
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # it was too late to ask
                os.kill(os.getpid(), signal.SIGTERM)

    return prepare


def _prctl() -> Callable[..., int] | None:
    import ctypes

    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)
    return found


@contextmanager
def _lending(terminal: int | None, child: subprocess.Popen[bytes]) -> Iterator[None]:
    """The command has the terminal; when it is stopped, so are we, and both go on together."""
    if terminal is None or not hasattr(os, "waitid"):
        yield
        return

    def follow(number: int, frame: FrameType | None) -> None:
        with suppress(ChildProcessError):
            if os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG) is None:
                return
            _give(terminal, os.getpgrp())
            os.killpg(os.getpgrp(), signal.SIGTSTP)  # here we stay until the shell goes on with us
            if os.tcgetpgrp(terminal) == os.getpgrp():
                _give(terminal, child.pid)
            _signal(child, signal.SIGCONT)

    before = signal.signal(signal.SIGCHLD, follow)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)
        _give(terminal, os.getpgrp())


def _give(terminal: int, group: int) -> None:
    """Put a process group into the foreground; whoever is in the background would be stopped for asking."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError):
        os.tcsetpgrp(terminal, group)
    signal.signal(signal.SIGTTOU, before)
