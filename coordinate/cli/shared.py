"""What every command shares: the call (which board, in whose name, in which format), its options, its output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinate.cli.declared import FORMATS, Option, Parameter, Verb, option

if TYPE_CHECKING:
    from coordinate.errors import CoordinateError
    from coordinate.service import Coordinator


# More than any text, plan or board that comes in.
FILE_BYTES_MAX = 100 << 20
# Bytes of names that the locale could not read.
_LONE = re.compile("[\udc80-\udcff]+")


class Call:
    """What one call was told; a command asks it for the board, and shows its answer through it."""

    def __init__(self) -> None:
        self.db: str | None = None
        self.agent = as_text(os.environ.get("COORDINATE_AGENT", ""))
        self.session = as_text(os.environ.get("COORDINATE_SESSION", "")) or None
        # None: nobody asked for one, and a command may choose its own.
        self.format = os.environ.get("COORDINATE_FORMAT") or None
        self.asked_format: str | None = None
        self.typed: set[str] = set()
        self.with_events = False
        self.tells_losses = True
        self._board: Coordinator | None = None
        self._run_hooks: Callable[[list[dict[str, Any]]], None] | None = None

    def refuse_unknown_format(self) -> None:
        """Before anything is done: raises `BadUsage` where the environment asks for a format that is none."""
        said = os.environ.get("COORDINATE_FORMAT")
        if said and said not in FORMATS:
            raise BadUsage(f"$COORDINATE_FORMAT must be one of {', '.join(FORMATS)}, not {said!r}")

    def remember(self, names: Iterable[str], value: Any) -> None:
        """Set what an option of the call says."""
        for name in names:
            setattr(self, name, value)
        self.typed.update(names)

    def source(self, option: Option) -> str:
        """Where the value of an option came from: its flag, or the variable that stands for it."""
        variable = f"COORDINATE_{option.name.upper()}"
        by_variable = option.sets and self.typed.isdisjoint(option.sets) and os.environ.get(variable)
        return f"${variable}" if by_variable else option.opts[0]

    @contextmanager
    def board(self) -> Iterator[Coordinator]:
        """The board that this call is about, open; what its session lost, or its database warns of, goes to stderr."""
        from coordinate.errors import Moved
        from coordinate.service import connect

        with connect(self.target(), agent=self.agent, session=self.session, after_commit=self._after_commit) as board:
            self._board = board
            try:
                yield board
            except Moved:
                board.database.warnings.clear()  # the error says it
                raise
            finally:
                if self.tells_losses:
                    self._tell_losses(board)
                for warning in dict.fromkeys(board.database.warnings):
                    self.warn(warning)

    def target(self) -> str | None:
        """The board that a flag named, if one did."""
        if self.db == "":  # such as of a variable that is not set: the folder's own board was not meant
            raise BadUsage("--db names no board: what it was given is empty")
        return None if self.db is None else as_path(self.db)

    def show(self, value: Any, *, nothing: str = "(nothing)") -> None:
        """Print an answer: a record, or plain values; with what others said, where the call asks for it.

        `nothing` is how people are told of an empty list.
        """
        if self.with_events and self._board is not None:
            from coordinate.cli.output import plain

            value = {**plain(value), "events": self._board.learnings()}
        if self.format == "table":
            from coordinate.cli.table import as_table

            _print(as_table(value) or nothing)
        else:
            from coordinate.cli.output import as_document

            _print(as_document(value))

    def show_lines(self, values: Iterable[Any]) -> None:
        """Print many answers as they come, one JSON document a line; a table asked for by the flag is refused."""
        from coordinate.cli.output import as_line

        if self.asked_format == "table":
            raise BadUsage("this prints one JSON document a line; --format table does not go with it")
        for value in values:
            _print(as_line(value))

    def show_text(self, text: str, name: str) -> None:
        """Print what is a text by nature (SQL, a script); whose flag asks for JSON gets it under a name.

        A variable does not ask: what a shell takes in is the same in every environment.
        """
        if self.asked_format == "json":
            self.show({name: text})
        else:
            _print(text.removesuffix("\n"))

    def warn(self, message: str, **facts: Any) -> None:
        """Say something beside the answer, as a JSON line on stderr."""
        import json

        sys.stderr.write(json.dumps(in_utf8({"warning": message, **facts})) + "\n")

    def _tell_losses(self, board: Coordinator) -> None:
        from coordinate import errors
        from coordinate.cli.output import plain

        try:
            lost = board.lost()
        except errors.CoordinateError:  # the next call tells it then
            return
        if lost is not None and (lost.leases or lost.claims):
            self.warn("this session lost what it held: stop changing it, or claim it again", lost=plain(lost))

    def _after_commit(self, events: list[dict[str, Any]]) -> None:
        """Run the caller's own hooks; the module is only loaded where there are some."""
        if self._run_hooks is None:
            from coordinate import config

            place = config.locate(self.target())
            # A folder that is refused was told among the board's warnings already.
            if place.folder is None or place.refusals or not (place.folder / "hooks").is_dir():
                self._run_hooks = lambda events: None
            else:
                from coordinate import hooks

                self._run_hooks = hooks.runner(place.folder, self.warn)
        self._run_hooks(events)


class BadUsage(Exception):
    """Options or arguments that do not go together."""

    hint = ""


class Exit(Exception):
    """The command ends with this status; what there is to say is said."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class OutputLost(Exception):
    """The answer could not be written; what was asked for is done all the same."""


def _print(text: str) -> None:
    """At once, so that a reader that is gone or a full disk is met inside of the command."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror or str(error)) from None


def as_text(typed: str) -> str:
    """What was typed in UTF-8, also where the locale is another and made lone surrogates of it."""
    try:
        return os.fsencode(typed).decode("utf-8")
    except UnicodeError:
        return typed


def in_utf8(value: Any) -> Any:
    """The same for the names of files in what is to be told."""
    if isinstance(value, str):
        return _LONE.sub(lambda found: as_text(found[0]), value)
    if isinstance(value, dict):
        return {key: in_utf8(each) for key, each in value.items()}
    return [in_utf8(each) for each in value] if isinstance(value, list | tuple) else value


def as_path(text: str) -> str:
    """The same as the system spells its files."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


@contextmanager
def pointing(call: Call, path: str, verb: Verb) -> Iterator[None]:
    """A refusal that does not say itself what to do next points to the command's help."""
    from coordinate.errors import CoordinateError

    try:
        if verb.shown is None or "--format" in verb.shown:
            call.refuse_unknown_format()
        yield
    except CoordinateError as error:
        error.hint = error.hint or f"see: {path} --help"
        _name_the_source(error, verb.takes, call)
        raise
    except BadUsage as error:
        error.hint = error.hint or f"see: {path} --help"
        raise


def _name_the_source(error: CoordinateError, takes: Sequence[Parameter], call: Call) -> None:
    """Whoever typed `--owner` is told of `--owner`, and not of the parameter behind it (which `field` names)."""
    field = str(error.facts.get("field", ""))
    for each in takes:
        if isinstance(each, Option) and each.name in (field, field.removesuffix("_seconds")):
            # A plain word may mean itself in a sentence; a parameter's name means nothing to whoever typed.
            of_it = rf"\b{field}\b" if "_" in field else rf"^{field}\b"
            source = call.source(each)
            error.message = re.sub(of_it, source, error.message)
            error.hint = re.sub(rf"{of_it}|(?<=give another ){field}\b", source, error.hint)


# --- what several commands take ---------------------------------------------------------------------------------------

revision_option = option("--expected-revision", type=int, metavar="N", help="Only if it stands at this revision still.")
with_events = option(
    "--with-events",
    is_flag=True,
    sets=("with_events",),
    help='Add "events": what other agents said since the last call that asked, and how much more waits.',
)
ASKING = (
    option("--next-step", help="The one thing that the human is to do."),
    option("--impact", help="What waits for it; every question says it."),
    option("--next-after", help="What comes after it."),
    option("--option", "options", multiple=True, metavar="LABEL", help="A choice of theirs; 2 to 4 times."),
    option("--recommend", metavar="LABEL", help="Which of the options you would choose."),
    option("--context", help="The long background."),
    option("--context-file", metavar="FILE", help="The same from a file; - is stdin."),
)


def asked(
    *, options: tuple[str, ...], recommend: str | None, context: str | None, context_file: str | None, **wanted: Any
) -> dict[str, Any]:
    """What was said with the options of ASKING and others, as the operation takes it."""
    if recommend is not None and recommend not in options:
        raise BadUsage("--recommend names none of the options")
    choices = [{"label": each, "recommended": True} if each == recommend else each for each in options]
    return given(options=choices or None, context=read_text(context, context_file, "context"), **wanted)


def given(**values: Any) -> dict[str, Any]:
    """Only what was said: what was not is left to the operation's own defaults."""
    return {name: value for name, value in values.items() if value is not None and value != ()}


def one_text(positional: str | None, option: str | None) -> str | None:
    """A text to search for, given as the argument or with --text."""
    if positional and option:
        raise BadUsage("give the text once: as the argument, or with --text")
    return positional or option


def tasks_named(named: tuple[str, ...]) -> list[str]:
    """Ids or handles from a flag that takes a comma list and may be repeated."""
    return [each.strip() for part in named for each in part.split(",") if each.strip()]


def read_text(text: str | None, path: str | None, flag: str) -> str | None:
    """A text given directly, or in a UTF-8 file (`-` is stdin)."""
    if path is None:
        return text
    if text is not None:
        raise BadUsage(f"give --{flag} or --{flag}-file, not both")
    return read_file(path)


def read_file(path: str) -> str:
    """A UTF-8 file, or stdin for `-`. Raises `NotFound`, or `InvalidInput`: also for what has no end."""
    from coordinate import errors

    try:
        if path == "-":
            found = sys.stdin.buffer.read(FILE_BYTES_MAX + 1) if sys.stdin else b""
        else:
            with open(as_path(path), "rb") as file:  # noqa: PTH123
                found = file.read(FILE_BYTES_MAX + 1)
        if len(found) > FILE_BYTES_MAX:
            raise errors.InvalidInput(f"{path} is longer than {FILE_BYTES_MAX >> 20} MiB", field="file")
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise errors.InvalidInput(f"{path} is not UTF-8 text", field="file") from None
    except PermissionError:
        from coordinate.config import no_entry

        raise no_entry(Path(as_path(path)), instead="name another file") from None
    except OSError as error:
        raise errors.NotFound(f"{path} cannot be read: {error.strerror}", hint="name a file that is there") from None
