"""The `coordinate` command, and its last resort: whatever goes wrong ends in one JSON line and a stable exit status.

Exit status: 0 done, also "nothing to do" - 1 a fault of ours, or an answer that could not be written - 2 refused by the
rules, or bad usage - 3 held by another - 4 stale claim or outdated revision - 5 database unreachable, busy or moving,
try again - 6 no board here, or its schema is behind or ahead - 7 the board has moved - 8 waited in vain - 129 the
terminal is gone, 130 interrupted, 143 terminated - 141 nobody read the output to its end (what was asked for is done
all the same).
$COORDINATE_DEBUG=1 adds the traceback of a fault of ours.
"""

from __future__ import annotations

import _thread
import errno
import gc
import io
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, which is loaded, like the rest, once `main` has put off collections
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any, NoReturn


class _Unheard(io.TextIOWrapper):
    """Standard error, where what cannot be written is lost, and changes neither the work nor the exit status."""

    def write(self, said: str) -> int:
        try:
            return super().write(said)
        except OSError:
            return len(said)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


class Terminated(BaseException):
    """SIGTERM came, or the terminal is gone: unwind, so that transactions are rolled back, what a move has closed is
    opened again, and children are looked after."""


def main() -> NoReturn:
    """Run the command line and exit. The entry point of the console script."""
    # Most calls are over before a collection could free anything: measured, a tenth of their time.
    gc.set_threshold(50_000)
    _survive_any_locale()
    try:
        status = _ended(sys.argv[1:])
        _end_in_peace()
    except (KeyboardInterrupt, Terminated) as ended:  # by a signal that came along with another, or just then
        _end_in_peace()
        status = _of_signal(ended)
    _leave(status)


def _ended(arguments: list[str]) -> int:
    """The exit status of the whole call, also of one that a signal ended."""
    try:
        sys.unraisablehook = _once_more
        signal.signal(signal.SIGTERM, _terminate)
        _signals().on_hangup(_terminate)
        status = _perform(arguments)
        sys.stdout.flush()
    except (KeyboardInterrupt, Terminated) as ended:
        return _of_signal(ended)
    except BrokenPipeError:
        _print_no_more()
        return 141
    except OSError as error:
        return _output_lost(error.strerror or str(error))
    return status


def _leave(status: int) -> NoReturn:
    """End at once: all is closed and told, and to free the rest piece by piece takes a twentieth of a short call."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it any more
    os._exit(status)


def _perform(arguments: list[str]) -> int:
    """The whole call; every refusal and fault becomes a line on stderr and a status."""
    from coordinate.cli.shared import BadUsage, Exit, OutputLost
    from coordinate.errors import CoordinateError, UnreadAnswer

    try:
        return _call(arguments)
    except Exit as ended:
        return ended.status
    except UnreadAnswer as error:
        return _refused(error.as_dict(), error.exit_status, as_it_is=True)  # what a human said is told to the letter
    except CoordinateError as error:
        return _refused(error.as_dict(), error.exit_status)
    except BadUsage as error:
        return _refused({"error": str(error), "code": "usage", "hint": error.hint or "see: coordinate --help"}, 2)
    except BrokenPipeError:
        raise
    except OutputLost as error:
        return _output_lost(str(error))
    except OSError as error:
        if isinstance(error, PermissionError) and error.filename is not None:
            from pathlib import Path

            from coordinate.config import no_entry

            refusal = no_entry(Path(os.fsdecode(error.filename)), instead="name another place")
            return _refused(refusal.as_dict(), refusal.exit_status)
        # Help and scripts are printed by click.
        closed = error.errno == errno.EBADF and sys.__stdout__ is None
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is None and (full or closed):
            return _output_lost(error.strerror or str(error))
        return _fault(error)
    except Exception as error:  # the last resort
        return _said_by_click(error)


def _said_by_click(error: Exception) -> int:
    """Its own ways to end a command, or to refuse one; anything else is a fault."""
    import click

    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"see: {context.command_path if context else 'coordinate'} --help"
        return _refused({"error": " ".join(error.format_message().split()), "code": "usage", "hint": hint}, 2)
    return _fault(error)


def _fault(error: Exception) -> int:
    if os.environ.get("COORDINATE_DEBUG") == "1":
        import traceback

        from coordinate.addresses import without_secrets

        sys.stderr.write(without_secrets(traceback.format_exc()))
    hint = "this is a fault of coordinate: please report it, with what $COORDINATE_DEBUG=1 prints"
    return _refused({"error": f"{type(error).__name__}: {error}", "code": "internal", "hint": hint}, 1)


def _output_lost(why: str) -> int:
    """The disk under stdout is full, or the like: the answer comes after the work, which is not undone."""
    _print_no_more()
    hint = "a change that the command makes was made, only its answer is lost: look at the board before you repeat it"
    return _refused({"error": f"the answer could not be written: {why}", "code": "output_lost", "hint": hint}, 1)


def _print_no_more() -> None:
    """The interpreter flushes once more at its end, and would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _call(arguments: list[str]) -> int:
    """By the lane, or by click, without click's own `main`, which has ideas of its own about signals and pipes."""
    from coordinate.cli import lane
    from coordinate.cli.shared import as_text

    line = [as_text(argument) for argument in arguments]
    instruction = os.environ.get("_COORDINATE_COMPLETE")
    if not instruction and lane.ran(line):
        return 0
    from coordinate.cli.root import root

    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(root, {}, "coordinate", "_COORDINATE_COMPLETE", instruction)
    with root.make_context("coordinate", line) as context:
        root.invoke(context)
    return 0


def _refused(told: dict[str, Any], status: int, *, as_it_is: bool = False) -> int:
    import json

    sys.stderr.write(json.dumps(told if as_it_is else _shown(told)) + "\n")
    return status


def _shown(told: Any) -> Any:
    from coordinate.addresses import without_secrets
    from coordinate.cli.shared import in_utf8

    if isinstance(told, str):
        return without_secrets(in_utf8(told))
    if isinstance(told, dict):
        return {key: _shown(value) for key, value in told.items()}
    return [_shown(each) for each in told] if isinstance(told, list | tuple) else told


def _survive_any_locale() -> None:
    """A terminal or pipe that cannot print a character gets a replacement, and the command goes on.

    To a closed stdout nothing can be written, so that an answer is not lost unseen.
    """
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = sys.__stderr__ = open(os.devnull, "w", encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115, PTH123
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    # Beside the stream that was there: others may have got hold of it.
    sys.stderr = _Unheard(sys.stderr.buffer, sys.stderr.encoding, "replace", line_buffering=True)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


def _of_signal(ended: BaseException) -> int:
    return 128 + ended.args[0] if isinstance(ended, Terminated) else 130


def _once_more(dropped: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in some steps of its own, as at the end of an import: then the signal comes again."""
    if isinstance(dropped.exc_value, KeyboardInterrupt | Terminated):
        # Not by `threading`, which waits for the thread: here the signal would be dropped again.
        _thread.start_new_thread(_again, (_of_signal(dropped.exc_value) - 128,))
    elif str(dropped.exc_value) != "generator ignored GeneratorExit":  # the driver's, where a signal ends its wait
        sys.__unraisablehook__(dropped)


def _again(number: int) -> None:
    time.sleep(0.05)
    os.kill(os.getpid(), number)


def _end_in_peace() -> None:
    """How it ends is decided: no further signal changes the status, or prints a traceback beside it."""
    for number in _signals().ENDING:
        signal.signal(number, signal.SIG_IGN)


def _signals() -> ModuleType:
    from coordinate import signals

    return signals


if __name__ == "__main__":
    main()
