"""Around a fork: who takes part is told before it and after it, and no signal comes between.

Python drops what is raised within such a hook, and the rest of the hook with it: a Ctrl-C there would be lost, and what
the hook had locked would stay locked. So a signal is put off until the fork is over.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

# Longer than a fork waits for those at work.
WAIT_SECONDS = 10.0


class Watcher(Protocol):
    """Who must let go of something before a fork, and takes it up again after it."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, child: bool) -> None: ...


class _Fork:
    """The fork that is being made; two threads may want one at once, and take turns."""

    def __init__(self) -> None:
        self.watchers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.came: list[int] = []  # the signal that came meanwhile, if one did: it comes when the fork is over
        self._forked = False
        self._turn = threading.Lock()
        self._thread: int | None = None
        self._told: list[Watcher] = []
        self._handlers: dict[int, Callable[..., Any]] = {}

    def before(self) -> None:
        """Also where nobody is to be told: the first may come meanwhile."""
        if not self._handlers:  # else one waits for the fork of the main thread to be over
            self.came.clear()
        self._put_signals_off()
        if not self._forked:
            # Called without a step of Python's, and behind the hooks that others had by now: in one of these the
            # handler would run in vain.
            interrupt = partial(self.came.sort, key=_thread.interrupt_main)
            os.register_at_fork(after_in_parent=interrupt, after_in_child=interrupt)
            self._forked = True
        self._turn.acquire()
        self._thread = threading.get_ident()
        self._told[:] = self._all()
        for watcher in self._told:
            watcher.before_fork()

    def _all(self) -> list[Watcher]:
        while True:
            with suppress(RuntimeError):  # another thread has come just now, and waits
                return list(self.watchers)

    def wait(self) -> None:
        """Until a fork that another thread makes is over; not for ever, should one of the hooks have failed."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._thread not in (None, threading.get_ident()) and time.monotonic() < deadline:
            time.sleep(0.001)

    def after(self, *, child: bool) -> None:
        if child:
            self.came.clear()  # the parent's
        if self._thread == threading.get_ident():
            while self._told:
                self._told.pop().after_fork(child=child)
            self._thread = None
            self._turn.release()
        self._let_signals_in()

    def _put_signals_off(self) -> None:
        """Handlers run in the main thread alone, between any two of its steps."""
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals() - self._handlers.keys():
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._remember)

    def _remember(self, number: int, _: object) -> None:
        self.came[:] = [number]

    def _let_signals_in(self) -> None:
        if self._handlers and threading.current_thread() is threading.main_thread():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while self._handlers:
                signal.signal(*self._handlers.popitem())
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


_fork = _Fork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork.before,
        after_in_parent=lambda: _fork.after(child=False),
        after_in_child=lambda: _fork.after(child=True),
    )


def watch(watcher: Watcher) -> None:
    """Tell it of every fork, for as long as it lives. It opens nothing before this returns."""
    _fork.watchers.add(watcher)
    _fork.wait()
