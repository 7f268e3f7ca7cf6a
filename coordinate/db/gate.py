"""A fair queue for the processes that write one file: who came first goes first. It decides nothing but the order.

The queue is a small file beside the board. Who wants to write takes a number from it, locks the byte of that number,
and waits until no lower byte is locked. The kernel frees what a dead process had locked, so a crash blocks nobody. The
database's own lock stays underneath: where the queue is missing, is skipped or loses its order, writers wait longer or
out of turn, and nothing else happens.

The file is made when two writers meet for the first time, with the rights of the board. Whoever cannot have it (another
system, a folder that may not be written, a file system without such locks) waits at the database's lock as before. It
may be deleted at any time.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

if sys.platform == "linux":
    import fcntl

# Locks of an open file: unlike those of a process they exclude threads too, and no other close() lets go of them.
AVAILABLE = sys.platform == "linux" and hasattr(os, "pread") and sys.maxsize > 1 << 32

_FLOCK = struct.Struct("hhqqi4x")
_TURNSTILE = 0  # the byte that is locked while a number is taken
_NUMBERS = 1 << 32  # where the bytes of the numbers begin
_NOBODY = 0
STILL_SECONDS = 0.5
# How long a turn lasts. Another process begins with cold caches and takes three times as long; so who comes back at
# once writes again, a few times, before the next one may.
TURN_SECONDS = 0.001
_MOST = 1 << 40  # then they begin anew, out of order once


def rest(seconds: float) -> None:
    """Sleep for about so long; those who met do not meet again."""
    import random  # most processes never wait

    time.sleep(random.uniform(0.5, 1.5) * seconds)


class Gate:
    """One process's place in the queue of a board. Not for two threads at once."""

    # For an instance that a signal stops in the midst of its making.
    _file: int | None = None
    _number: int | None = None
    _usher: _Usher | None = None

    def __init__(self, board: Path, *, wanted: bool = True) -> None:
        self.useful = wanted and AVAILABLE
        self._board = Path(os.path.realpath(board))
        self._path = str(self._board) + "-gate"
        self._turn_ends = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether our last turn still lasts, so that we may write once more before we stand in the queue again."""
        return time.monotonic() < self._turn_ends

    @property
    def entered(self) -> bool:
        """Whether we have a place in the queue."""
        return self._number is not None

    def enter(self, *, make: bool = False) -> bool:
        """Take a place in the queue; False when none is to be had, or we have one. `make` the queue if need be."""
        if not self.useful or self.entered:
            return False
        try:
            self._find(make=make)
            if self._file is not None:
                self._take_number(self._file)
        except OSError:
            self.useful = False
            self.close()
        return self.entered

    def wait(self, seconds: float) -> bool:
        """Wait for our turn; True also where there is no queue.

        False when the time is up, or when nothing moved for half a second: whoever is first may be stopped, and then
        the caller tries its luck with the database.
        """
        if self._file is None or self._number is None:
            return True
        until = time.monotonic() + seconds
        first = _ahead(self._file, self._number)
        while first:
            if self._usher is None:
                self._usher = _Usher(self._file)
            left = until - time.monotonic()
            if self._usher.wait(self._number, max(0.0, min(STILL_SECONDS, left))):
                break
            before, first = first, _ahead(self._file, self._number)
            if left <= 0 or first == before:
                return False
        self._turn_ends = time.monotonic() + TURN_SECONDS
        return True

    def leave(self) -> None:
        """Give up the place; whoever is next may go."""
        number, self._number = self._number, None
        if self._file is not None and number is not None:
            _lock(self._file, _NUMBERS + number, fcntl.F_UNLCK)

    def close(self, *, quietly: bool = False) -> None:
        """Close the file, until it is needed again; `quietly` without waiting for the thread to end."""
        self.leave()
        if self._usher is not None:
            self._usher.end(quietly=quietly)
        elif self._file is not None:
            os.close(self._file)
        self._usher = self._file = None

    def __del__(self) -> None:
        self.close(quietly=True)  # an interpreter at its end runs no other threads

    def forget(self) -> None:
        """In a forked child: what is open is the parent's, and must not outlive it here."""
        if self._file is not None:
            os.close(self._file)
        self._usher = self._file = self._number = None

    def _find(self, *, make: bool) -> None:
        """Open the file that is there now; another may have come in its place."""
        try:
            there = os.lstat(self._path)
        except FileNotFoundError:
            there = None
        if self._file is not None:
            ours = os.fstat(self._file)
            if there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
            self.close()
        if there is None and not make:
            return
        # Nothing but a file of ours is opened, wherever a link at this place may lead.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if there is None:
            with suppress(FileExistsError):
                self._file = self._make(flags)
                return
        file = os.open(self._path, flags)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size not in (0, 8):
            os.close(file)
            raise OSError(f"{self._path} is another's")
        self._file = file

    def _make(self, flags: int) -> int:
        """As open to others as the board, and its owner's even when root comes first."""
        board = self._board.stat()
        file = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, stat.S_IMODE(board.st_mode) & 0o666)
        try:
            if os.geteuid() == 0:
                os.fchown(file, board.st_uid, board.st_gid)
            os.fchmod(file, stat.S_IMODE(board.st_mode) & 0o666)
        except OSError:
            pass  # then it is for fewer than could be
        return file

    def _take_number(self, file: int) -> None:
        """The next number, our own from here on. Others are at this for microseconds, or stopped: then not at all."""
        patience = time.monotonic() + 0.1
        try:
            while not _lock(file, _TURNSTILE, fcntl.F_WRLCK):
                if time.monotonic() > patience:
                    return
                time.sleep(0.00005)
            number = int.from_bytes(os.pread(file, 8, 0), "little") % _MOST + 1
            os.pwrite(file, number.to_bytes(8, "little"), 0)
            self._number = number  # first, so that an interrupt here leaves no byte locked
            _lock(file, _NUMBERS + number, fcntl.F_WRLCK)
        finally:
            _lock(file, _TURNSTILE, fcntl.F_UNLCK)


class _Usher:
    """A thread that waits in the kernel, which wakes it at once but knows no deadline; the caller waits for the thread.

    Measured with 50 processes: twice the turns of looking again and again, and as many as waiting in the caller's own
    thread, which could neither give up nor be interrupted.
    """

    def __init__(self, file: int) -> None:
        from queue import SimpleQueue  # most processes never wait

        self._file = file
        self._number = 0
        self._come_number = 0
        self._asked: SimpleQueue[int] = SimpleQueue()
        self._come: SimpleQueue[int] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="coordinate gate", daemon=True)
        self._thread.start()

    def wait(self, number: int, seconds: float) -> bool:
        """Wait until nobody is ahead of a number, so long at most. It is waited for even if the caller gives up."""
        from queue import Empty

        if number != self._number:
            self._number = number
            self._asked.put(number)
        with suppress(Empty):
            while self._come_number != number:  # an earlier one, which was given up, may come first
                self._come_number = self._come.get(timeout=seconds)
        return self._come_number == number

    def end(self, *, quietly: bool) -> None:
        """Let it go: it closes the file, at once if it is not waiting for somebody."""
        self._asked.put(_NOBODY)
        if self._come_number == self._number and not quietly:
            self._thread.join()

    def _serve(self) -> None:
        try:
            while (number := self._asked.get()) != _NOBODY:
                before = _NUMBERS + number - 1  # not the first of the queue: all would wake whenever one goes
                with suppress(OSError):
                    while before:
                        _lock(self._file, before, fcntl.F_RDLCK, wait=True)
                        _lock(self._file, before, fcntl.F_UNLCK)
                        before = _ahead(self._file, number)  # the one before may have died in the queue
                self._come.put(number)
        finally:
            os.close(self._file)


def _ahead(file: int, number: int) -> int:
    """The byte of somebody who is ahead of a number, the longest waiting of them; 0 when there is nobody."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _NUMBERS, number, 0)
    kind, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(start)


def _lock(file: int, byte: int, kind: int, *, wait: bool = False) -> bool:
    """Lock or unlock one byte; False when another has it."""
    how = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    try:
        fcntl.fcntl(file, how, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
    except BlockingIOError:
        return False
    return True
