"""What a command takes, said once and as plain data.

`root.py` makes click's objects of it: for help, completion, mistakes, and every line that is out of the ordinary.
`lane.py` reads the ordinary ones by it without loading click, which takes a fifth of a short call's time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("json", "table")


class Parameter:
    """An option or an argument: its name, its kind, and the attributes that click wants to know of it."""

    opts: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    many = required = False
    default: Any = None

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name = name
        self.attributes = attributes
        self.kind = attributes.get("type")

    def read(self, text: str) -> Any:
        """The value that a text means. Raises `InvalidInput`, or `ValueError` where it is for click to say."""
        if self.kind is None:
            return text
        if self.kind is int:
            return int(text)
        if isinstance(self.kind, Kind):
            return self.kind.read(text, self.name)
        raise ValueError(f"a kind of click's own: {self.kind}")

    def usual(self) -> Any:
        """Its value where none is given."""
        return self.read(self.default) if isinstance(self.default, str) else self.default


class Argument(Parameter):
    """What is told by its place; `nargs=-1`: all that is left."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, attributes)
        self.many = attributes.get("nargs") == -1
        self.default = attributes.get("default", () if self.many else None)
        self.required = attributes.get("required", not self.many and self.default is None)


class Option(Parameter):
    """What is told by its flag. Where it `sets` attributes of the call, the command's function does not get it."""

    def __init__(self, *names: str, sets: tuple[str, ...] = (), **attributes: Any) -> None:
        flags = [name.split("/") for name in names if name.startswith("-")]
        self.names = names
        self.opts = tuple(flag[0] for flag in flags)
        self.off = tuple(flag[1] for flag in flags if len(flag) > 1)
        named = next((name for name in names if not name.startswith("-")), self.opts[0].lstrip("-"))
        super().__init__(named.replace("-", "_"), attributes)
        self.sets = sets
        self.is_flag = bool(attributes.get("is_flag") or self.off)
        self.many = attributes.get("multiple", False)
        self.required = attributes.get("required", False)
        self.default = attributes.get("default", () if self.many else False if self.is_flag else None)


def option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Let a command take an option."""
    return _taken(Option(*names, **attributes))


def argument(name: str, **attributes: Any) -> Callable[[F], F]:
    """Let a command take an argument."""
    return _taken(Argument(name, **attributes))


def choice(*names: str, upper: bool = False, **attributes: Any) -> Callable[[F], F]:
    """An option that is as good as absent when it is empty, as in `--project "$PROJECT"`; `upper` takes any case."""
    return option(*names, type=Word(upper), **attributes)


def taking(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Options that several commands take, in this order."""

    def declare(function: F) -> F:
        for each in reversed(options):
            function = each(function)
        return function

    return declare


def _taken(parameter: Parameter) -> Callable[[F], F]:
    def declare(function: F) -> F:
        vars(function).setdefault("takes", []).insert(0, parameter)  # the decorator that stands last is called first
        return function

    return declare


# --- kinds of values --------------------------------------------------------------------------------------------------


class Kind:
    """How a text that was typed becomes a value; without one it stays a text."""

    name = "text"

    def read(self, text: str, field: str) -> Any:
        raise NotImplementedError


class Word(Kind):
    """A text; an empty one is none."""

    def __init__(self, upper: bool) -> None:
        self.upper = upper

    def read(self, text: str, field: str) -> str | None:
        return (text.upper() if self.upper else text) or None


class OneOf(Kind):
    """One of these words."""

    name = "choice"

    def __init__(self, *words: str) -> None:
        self.words = words

    def read(self, text: str, field: str) -> str:
        if text not in self.words:
            raise ValueError(text)
        return text


class _Duration(Kind):
    """`90`, `90s`, `10m`, `2h`, `3d` as seconds."""

    name = "duration"

    def read(self, text: str, field: str) -> int:
        from coordinate import inputs

        return inputs.duration(text, field)


class _Moment(Kind):
    """RFC 3339 text as an aware moment."""

    name = "time"

    def read(self, text: str, field: str) -> datetime:
        from coordinate import inputs

        return inputs.parse_instant(text, field)


DURATION, MOMENT = _Duration(), _Moment()

# --- commands ---------------------------------------------------------------------------------------------------------

# They may stand anywhere in the line; the one nearest to its end wins.
GLOBAL_OPTIONS = (
    Option(
        "--db",
        metavar="URL|PATH",
        sets=("db",),
        help="The board. Default: $COORDINATE_DB, else the nearest .coordinate/ upward.",
    ),
    Option("--agent", metavar="NAME", sets=("agent",), help="In whose name. Default: $COORDINATE_AGENT."),
    Option("--session", metavar="ID", sets=("session",), help="Which run of the agent. Default: $COORDINATE_SESSION."),
    Option(
        "--format",
        type=OneOf(*FORMATS),
        sets=("format", "asked_format"),
        help="json (default) for programs, table for people. Default: $COORDINATE_FORMAT.",
    ),
    Option(
        "--json",
        is_flag=True,
        flag_value="json",
        sets=("format", "asked_format"),
        help="The same as --format json.",
    ),
)
OUTPUT_ONLY = ("--format", "--json")
"""What a command takes that asks no board."""


class Verb:
    """A command: its function, and what it takes, the global options that it does not declare itself included.

    `shown` names those of them that mean something to it; the others are accepted and not shown.
    """

    def __init__(
        self, name: str, function: Callable[..., None], example: str, more: str, shown: tuple[str, ...] | None
    ) -> None:
        self.name = name
        self.function = function
        self.example = example
        self.more = more
        self.shown = shown
        own: list[Parameter] = vars(function).get("takes", [])
        declared = {flag for each in own for flag in each.opts}
        self.takes = [*own, *(each for each in GLOBAL_OPTIONS if not declared & set(each.opts))]

    @property
    def help(self) -> str:
        """The docstring, `more`, and an example."""
        import inspect

        parts = (inspect.cleandoc(self.function.__doc__ or ""), inspect.cleandoc(self.more))
        return "\n\n".join(part for part in (*parts, f"\b\nExample:\n  {self.example}") if part)


def command(
    name: str, *, example: str, more: str = "", takes: tuple[str, ...] | None = None
) -> Callable[[Callable[..., None]], Verb]:
    """A command of this line; its help says `more` than its docstring, and ends with an example."""
    return lambda function: Verb(name, function, example, more, takes)
