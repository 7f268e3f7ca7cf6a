"""Signals that wait while a program is started, until it is known and can be ended or be handed them on; and those
that change nothing, since the program ends already.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

# What ends a program: Ctrl-C, `kill`, a terminal or a connection that is gone. Windows has no SIGHUP.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def on_hangup(handler: Callable[[int, FrameType | None], object]) -> None:
    """Handle the end of the terminal, unless the program is to outlive it (nohup)."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signal.signal(hangup, handler)


def hold_back(numbers: Iterable[int]) -> set[int]:
    """Let signals wait; returns the mask from before. Where a system cannot do that, nothing waits."""
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, numbers)}


def let_come(mask: set[int]) -> None:
    """Go back to a mask; also in a child, before it becomes another program."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def ignored(numbers: Iterable[int]) -> Iterator[None]:
    """Let signals pass unheard. Only the main thread hears them, and only there this does anything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # it was set by no Python, which cannot set it again
                signal.signal(number, handler)
