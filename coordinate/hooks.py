"""Hooks: the caller's own programs, run after a change was committed. They can fail or hang, the command cannot.

A hook is an executable in `.coordinate/hooks` named after the event, dots and underscores as dashes:
`task.lease_expired` runs `task-lease-expired`, then everything in `task-lease-expired.d/` side by side. It gets the
event as one JSON object on standard input and has 30 seconds. What it prints goes to standard error.

A hook is run only when nobody but the caller or root could have written it: it, its folders and what a link leads to
belong to one of them, others cannot write there, and git does not track it (a checkout would bring code along).
"""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from coordinate import config, signals

if TYPE_CHECKING:
    import subprocess

SECONDS_MAX = 30.0
INSIDE = "COORDINATE_IN_HOOK"
# What a hook is told of the event, beside `event` itself.
TOLD = ("payload", "project", "agent", "ref", "message")
# Windows runs what has one of these endings; everywhere else the executable bit decides.
WINDOWS_ENDINGS = (".exe", ".cmd", ".bat")

Events = list[dict[str, Any]]


def runner(folder: Path | None, warn: Callable[[str], None]) -> Callable[[Events], None]:
    """What to call after each commit with the operation's events; `folder` is the caller's `.coordinate/`.

    The call returns when all hooks have ended, 30 seconds each at most, and never raises for a hook's sake: what goes
    wrong is one `warn` for each. Without hooks it costs one look into the folder and says nothing. Hooks that may not
    be run are refused with one `warn` for each reason, however many events there are. A hook's own calls run no hooks.
    """
    if folder is None:
        return lambda events: None
    hooks = folder / "hooks"
    said: set[str] = set()

    def once(message: str) -> None:
        if message not in said:
            said.add(message)
            warn(message)

    def run(events: Events) -> None:
        names = _names_in(hooks, once)
        trusted = functools.cache(lambda path: _trusted(path, folder, once))
        for event in events if names else ():
            name = file_name(event["event_type"])
            single = [hooks / each for each in _endings(name) if each in names]
            several = _all_in(hooks / f"{name}.d", once) if f"{name}.d" in names else []
            if not single and not several:
                continue
            if os.environ.get(INSIDE):
                once(f"hook {name} is not run: this call comes from a hook ({os.environ[INSIDE]})")
                continue
            for batch in (single, several):
                _run_side_by_side([path for path in batch if trusted(path)], event, hooks, warn)

    return run


def file_name(event_type: str) -> str:
    """The name of an event's hook: `review-approved` for `review.approved`."""
    return event_type.replace(".", "-").replace("_", "-")


def _names_in(folder: Path, once: Callable[[str], None]) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths
    except FileNotFoundError:
        return set()
    except OSError as error:
        once(f"{folder} cannot be looked into, no hook is run: {error.strerror}")
        return set()


def _endings(name: str) -> Iterable[str]:
    return [name + ending for ending in WINDOWS_ENDINGS] if os.name == "nt" else [name]


def _all_in(folder: Path, once: Callable[[str], None]) -> list[Path]:
    """The files of a `.d` folder by name, without hidden ones and an editor's copies."""
    names = sorted(_names_in(folder, once))
    if os.name == "nt":
        names = [name for name in names if name.lower().endswith(WINDOWS_ENDINGS)]
    return [folder / name for name in names if not name.startswith(".") and not name.endswith("~")]


def _trusted(path: Path, folder: Path, once: Callable[[str], None]) -> bool:
    """Whether a hook may be run; the first reason why not is said, once."""
    if fault := config.untrusted(folder):
        once(f"{folder} is not used for settings and hooks: {fault}")
        return False
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # links that lead in a circle
        once(f"hook {_shown(path, folder / 'hooks')} is not run: nobody can say what its link leads to")
        return False
    for each in (path.parent, path, real, real.parent):
        if fault := config.foreign(each):
            once(f"hook {_shown(path, folder / 'hooks')} is not run: {fault}")
            return False
    if why := config.tracked_by_git(path) or (config.tracked_by_git(real) if real != path else ""):
        once(
            f"hook {_shown(path, folder / 'hooks')} is not run: {why};"
            " a hook must be your own file, not one that a checkout brings"
        )
        return False
    return True


def _run_side_by_side(paths: list[Path], event: dict[str, Any], hooks: Path, warn: Callable[[str], None]) -> None:
    told = {"event": event["event_type"], **{key: event[key] for key in TOLD if key in event}}
    running: list[tuple[str, subprocess.Popen[bytes], float]] = []
    faults: list[str] = []
    try:
        for path in paths:
            name = _shown(path, hooks)
            # An interrupt waits until the hook that just began is known, and can be ended.
            mask = signals.hold_back(signals.ENDING)
            try:
                running.append((name, _start(path, told, mask), time.monotonic() + SECONDS_MAX))
            except OSError as error:
                faults.append(f"hook {name} cannot be run: {_cure(path, error)}")
            finally:
                signals.let_come(mask)
        for name, process, deadline in running:
            if fault := _wait(process, deadline):
                faults.append(f"hook {name} {fault}")
    finally:
        # Also when the caller is interrupted while it waits.
        for _, process, _ in running:
            if process.poll() is None:
                _kill(process)
    for fault in faults:
        warn(fault)


def _start(path: Path, told: dict[str, Any], mask: set[int]) -> subprocess.Popen[bytes]:
    import subprocess
    import tempfile

    if not path.is_file():
        raise OSError("it is not a file")
    if os.name != "nt" and not os.access(path, os.X_OK):
        raise OSError("it is not executable (chmod +x)")
    # A file, not a pipe: a hook may leave its input unread, and nobody has to feed several of them at once.
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(told).encode() + b"\n")
        given.seek(0)
        return subprocess.Popen(
            [str(path.absolute())],
            stdin=given,
            stdout=_standard_error(),
            stderr=_standard_error(),
            env={**os.environ, INSIDE: told["event"]},
            start_new_session=True,  # a group of its own, which can be ended as a whole
            preexec_fn=functools.partial(signals.let_come, mask) if os.name == "posix" else None,  # noqa: PLW1509
        )


def _standard_error() -> IO[Any] | int:
    """Where the caller's own messages go; nowhere if it has closed that."""
    import subprocess

    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL


def _cure(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return "its first line does not say with what (such as #!/bin/sh)"
    if error.errno == errno.ENOENT and path.exists():
        return "the program that its first line names is not there"
    return error.strerror or str(error)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Wait for one hook; returns what was wrong with it, if anything."""
    import subprocess

    try:
        status = process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        return f"took longer than {SECONDS_MAX:g} s and was stopped"
    if status < 0:
        return f"was ended by signal {-status}"
    return f"failed with exit status {status}" if status else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a hook and all that it started."""
    with suppress(ProcessLookupError):
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _shown(path: Path, hooks: Path) -> str:
    return str(path.relative_to(hooks))
