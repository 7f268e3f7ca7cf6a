"""Signals that wait while a program is started, until it is known and can be ended or be handed them on."""

from __future__ import annotations

import signal
from collections.abc import Iterable


def hold_back(numbers: Iterable[int]) -> set[int]:
    """Let signals wait; returns the mask from before. Where a system cannot do that, nothing waits."""
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, numbers)}


def let_come(mask: set[int]) -> None:
    """Go back to a mask; also in a child, before it becomes another program."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
