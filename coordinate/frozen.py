"""Frozen dataclasses that cost next to nothing to define, and little to make.

The standard decorator writes and compiles six methods for every class. For the records of this program that takes 14 ms
(measured), more than a command line call spends on its claim; here the methods are shared, and its list of fields is
made when it is asked for. What comes out is a dataclass all the same: `fields`, `replace`, `asdict`, pattern matching,
pickling and comparison work as usual. Without slots, for a row then becomes a record by one assignment instead of one
for each column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import dataclasses

T = TypeVar("T")

# So many fields an object keeps in itself, without a dict that takes room, and time of whoever collects garbage.
_FEW = 4


@dataclass_transform(frozen_default=True)
def dataclass(*, frozen: Literal[True]) -> Callable[[type[T]], type[T]]:
    """`dataclasses.dataclass(frozen=True)` for fields with plain defaults or none, added to those of one such base."""

    def decorate(cls: Any) -> Any:
        names = tuple(_annotations(cls))
        cls.__match_args__ = names  # type: ignore[misc]
        cls._names = frozenset(names)
        own = {name: vars(cls)[name] for name in names if name in vars(cls)}
        cls._defaults = getattr(cls.__base__, "_defaults", {}) | own
        cls.__dataclass_fields__ = _Fields(cls)
        for method in (_init, _repr, _eq, _hash, _setattr, _delattr, _reduce, _replace):
            if (name := f"__{method.__name__[1:]}__") not in vars(cls):
                setattr(cls, name, method)
        return cls

    return decorate


def replace(record: T, **changes: Any) -> T:
    """The same record with other values in some fields; what `dataclasses.replace` does, without its list of fields."""
    return _replace(record, **changes)  # type: ignore[no-any-return]


def record_of(kind: type[T], fields: dict[str, Any]) -> T:
    """A record with these fields, all of them by their names. It keeps the dict for itself: no copy is made."""
    record = object.__new__(kind)
    _take(record, fields)
    return record


def _annotations(cls: Any) -> dict[str, Any]:
    return {**getattr(cls.__base__, "__annotations__", {}), **cls.__annotations__}


class _Fields:
    """The fields of a class as the standard library wants them, worked out when somebody asks for the first time."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, dataclasses.Field[Any]]:
        import dataclasses  # slow to load: it brings `inspect` along

        cls = self._cls
        bare = type(cls.__name__, (), {"__annotations__": _annotations(cls), "__doc__": "", **cls._defaults})
        standard: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(bare)
        found: dict[str, dataclasses.Field[Any]] = standard.__dataclass_fields__
        cls.__dataclass_fields__ = found
        return found


def _init(self: Any, *values: Any, **named: Any) -> None:
    if values or len(named) < len(self._names):  # else every field by name: how a row becomes a record
        given = dict(zip(self.__match_args__, values, strict=False))
        if len(values) > len(given) or given.keys() & named.keys():
            raise TypeError(f"{type(self).__name__} takes each of {', '.join(self.__match_args__)} once")
        named = {**self._defaults, **given, **named}
    _take(self, named)


def _take(self: Any, named: dict[str, Any]) -> None:
    if named.keys() != self._names:
        wrong = ", ".join(sorted(named.keys() ^ self._names))
        raise TypeError(f"{type(self).__name__} takes {', '.join(self.__match_args__)}; missing or unknown: {wrong}")
    if len(named) > _FEW:
        object.__setattr__(self, "__dict__", named)
    else:
        for name, value in named.items():
            object.__setattr__(self, name, value)


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__match_args__)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _replace(self: Any, **changes: Any) -> Any:
    return type(self)(**{**vars(self), **changes})


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), _values(self)


def _setattr(self: Any, name: str, value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")
