"""The ordinary line, read without click: the command, its arguments, and known options with their values.

Whatever else a line is (help, a mistake, an option in front of the command) is left to click. Both read by the same
declarations, so that what is taken here is what click would take; a test lets both read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from coordinate.cli.commands import GROUPS, ROOT
from coordinate.cli.declared import Argument, Option, Parameter, Verb
from coordinate.cli.shared import Call, pointing
from coordinate.errors import InvalidInput


def ran(line: Sequence[str]) -> bool:
    """Run the command that a line means; False, and nothing is done, where it is not an ordinary one."""
    path, verb = _verb(line)
    values = None if verb is None else read(verb.takes, line[len(path) :])
    if verb is None or values is None:
        return False
    call = Call()
    taken = {}
    for parameter, value in values.items():
        if parameter.sets:
            call.remember(parameter.sets, value)
        else:
            taken[parameter.name] = value
    with pointing(call, " ".join(("coordinate", *path)), verb):
        verb.function(call, **taken)
    return True


def _verb(line: Sequence[str]) -> tuple[Sequence[str], Verb | None]:
    """The words that name a command, and the command; None if they name none, or a group."""
    table = ROOT
    for count, word in enumerate(line, 1):
        if word not in table:
            break
        module, attribute, _ = table[word]
        if module != "root":
            found = getattr(import_module(f"coordinate.cli.{module}"), attribute)
            return line[:count], found if isinstance(found, Verb) else None
        table = GROUPS.get(" ".join(line[:count]), {})
    return (), None


def read(takes: Sequence[Parameter], words: Sequence[str]) -> dict[Parameter, Any] | None:
    """The values of what is given, as it stands, then the usual ones of the rest; None where click is to look."""
    flags = {flag: each for each in takes if isinstance(each, Option) for flag in each.opts + each.off}
    given: dict[Parameter, Any] = {}
    loose: list[str] = []
    rest = iter(words)
    try:
        for word in rest:
            if not word.startswith("-"):
                loose.append(word)
                continue
            flag, equals, text = word.partition("=")
            option = flags[flag]
            if (option in given and not option.many) or (option.is_flag and equals):
                return None
            if option.is_flag:
                given[option] = option.attributes.get("flag_value", True) if flag in option.opts else False
            else:
                value = option.read(text if equals else next(rest))
                given[option] = (*given.get(option, ()), value) if option.many else value
        for each in takes:
            if isinstance(each, Argument) and loose:
                given[each] = tuple(map(each.read, loose)) if each.many else each.read(loose[0])
                loose = [] if each.many else loose[1:]
        absent = [each for each in takes if each not in given and not each.sets]
        if loose or any(each.required for each in absent):
            return None
        return given | {each: each.usual() for each in absent}
    except (KeyError, StopIteration, ValueError, InvalidInput):
        return None
