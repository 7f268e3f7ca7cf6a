"""Files in somebody else's folder: made, updated or left alone, and never a word of theirs lost.

Everything is looked at and refused before anything is written. A write is whole or not at all. No link is followed out
of the folder. A file that we made carries a mark with a digest of its text, so that one which was edited since is known
and kept; in a file that is the user's, only what stands between our two marks is ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from coordinate.config import no_entry
from coordinate.errors import InvalidInput, PermissionDenied

BEGIN = b"<!-- coordinate:begin -->"
END = b"<!-- coordinate:end -->"
_BEGIN_LINE = re.compile(rb"^[ \t]*" + re.escape(BEGIN) + rb"[ \t]*(?=\r?$)", re.MULTILINE)
_END_LINE = re.compile(rb"^[ \t]*" + re.escape(END) + rb"[ \t]*(?=\r?$)", re.MULTILINE)
# A harness waits no longer for a hook.
HOOK_SECONDS = 15
_MARK = re.compile(r"metadata:\n  made-by: coordinate ([0-9a-f]{16})\n")


@dataclass(frozen=True, slots=True)
class Change:
    """What is to happen to one file: `content` is written to `place`, or it is left alone (None) because of `why`.

    `name` is the file as the user calls it, from the folder; `place` is where a link of that name leads. `before` is
    what stood there when it was looked at (None: nothing, it is to be made).
    """

    name: str
    place: Path
    content: bytes | None
    before: bytes | None = None
    private: bool = False
    why: str = ""

    @property
    def made(self) -> bool:
        return self.content is not None and self.before is None


def whole_file(root: Path, name: str, text: str) -> Change:
    """A file that is ours alone: made, or replaced while nobody edited it; another's file of that name is kept."""
    place, before = _look(root, name)
    if before is None:
        return Change(name, place, marked(text).encode())
    found = before.decode(errors="replace").replace("\r\n", "\n")
    if found == marked(text):
        return Change(name, place, None, why="up to date")
    mark = _MARK.search(found)
    if mark is None:
        return Change(name, place, None, why="it was not made by coordinate")
    if mark.group(1) != _digest(found.replace(mark.group(), "", 1)):
        return Change(name, place, None, why="it was edited; move it away and run init again to get the new text")
    return Change(name, place, marked(text).encode(), before)


def new_file(root: Path, name: str, content: bytes) -> Change:
    """A file that is made once, for the caller alone (0600); from then on it is the user's."""
    place, before = _look(root, name)
    if before is None:
        return Change(name, place, content, private=True)
    return Change(name, place, None, why="up to date" if before == content else "it was there already")


def block(root: Path, name: str, text: str) -> Change:
    """Our block in a file of the user's: replaced between its marks, else appended; all around it stays as it is."""
    place, before = _look(root, name)
    body = text.strip().encode()
    if before is None:
        return Change(name, place, b"\n".join((BEGIN, body, END, b"")))
    if b"\0" in before or before.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _wrong(name, "is not UTF-8 text", "save it as UTF-8, or move it away, and run init again")
    begins, ends = list(_BEGIN_LINE.finditer(before)), list(_END_LINE.finditer(before))
    if not begins and not ends:
        line = b"\r\n" if b"\r\n" in before else b"\n"
        gap = b"" if not before or before.endswith(line * 2) else line if before.endswith(line) else line * 2
        return Change(name, place, before + gap + line.join((BEGIN, *body.splitlines(), END, b"")), before)
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise _wrong(
            name,
            f"holds {len(begins)} line(s) `{BEGIN.decode()}` and {len(ends)} line(s) `{END.decode()}`;"
            " it must be one of each, in this order",
            "mend the marks, or take both away to get a new block at the end; nothing was changed",
        )
    after_begin = before[begins[0].end() :]
    line = b"\r\n" if after_begin.startswith(b"\r\n") else b"\n"
    content = before[: begins[0].end()] + line + line.join((*body.splitlines(), b"")) + before[ends[0].start() :]
    return Change(name, place, None, why="up to date") if content == before else Change(name, place, content, before)


def hooks(root: Path, name: str, wanted: dict[str, str]) -> Change:
    """Commands that a harness runs at its events, added to its settings file; whatever else stands there stays.

    A command that is there already, as we wrote it or with more around it, is not added again.
    """
    place, before = _look(root, name)
    settings, groups = _settings(name, before)
    missing = {event: line for event, line in wanted.items() if not _runs(groups.get(event, []), line)}
    if not missing:
        return Change(name, place, None, why="up to date")
    for event, line in missing.items():
        hook = {"type": "command", "command": f"{line} || true", "timeout": HOOK_SECONDS}
        groups.setdefault(event, []).append({"hooks": [hook]})
    settings["hooks"] = groups
    text = (before or b"").decode()
    indent = re.search(r"\n([ \t]+)\"", text)
    content = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=text.isascii()) + "\n"
    line_end = "\r\n" if "\r\n" in text else "\n"
    return Change(name, place, content.replace("\n", line_end).encode(), before)


def _settings(name: str, before: bytes | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A settings file as it stands, and its hooks by event; refused when that is not what it is."""
    try:
        settings = json.loads(
            (before or b"").decode() or "{}", object_pairs_hook=_each_once, parse_float=_kept, parse_constant=_kept
        )
    except (ValueError, RecursionError) as error:
        raise _wrong(name, f"is not JSON: {error}", "mend it and run init again; nothing was changed") from None
    groups = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(groups, dict) or not all(isinstance(each, list) for each in groups.values()):
        raise _wrong(name, "holds no settings with hooks by event", "mend it and run init again; nothing was changed")
    return settings, groups


def _runs(groups: list[Any], line: str) -> bool:
    """Whether a command of these hooks runs this one: its words stand there as words, not in a comment or a text."""
    commands = [
        hook.get("command", "")
        for group in groups
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for hook in group["hooks"]
        if isinstance(hook, dict)
    ]
    return any(isinstance(each, str) and f" {line} " in f" {' '.join(_words(each))} " for each in commands)


def _words(command: str) -> list[str]:
    """The words of a shell's command, each program without its path; a text in quotes is one, and none of these."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return [word.rpartition("/")[2] for word in lexer if word[0] not in "'\"" or word[-1] != word[0]]
    except ValueError:  # a quote that does not end
        return command.split()


def _kept(number: str) -> float:
    """A number that is the same when it is written again."""
    value = float(number)
    if not math.isfinite(value) or Decimal(number) != Decimal(repr(value)):
        raise ValueError(f"the number {number[:40]} cannot be kept as it is")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of which nothing is lost when it is written again."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names a key twice")
    return found


def folder(root: Path, name: str) -> Path:
    """A folder inside of the root, made for the caller alone (0700); one that is there is left as it is."""
    place = _inside(root, name)
    with _explained(name):
        place.mkdir(mode=0o700, exist_ok=True)
    return place


def write(change: Change) -> None:
    """Do what was planned, whole or not at all; permissions and owner of a file that is replaced stay.

    Refused is what somebody has written since it was looked at, unless it says what is wanted already.
    """
    if change.content is None:
        return
    with _explained(change.name):
        change.place.parent.mkdir(parents=True, exist_ok=True)
        found = change.place.read_bytes() if change.place.exists() else None
        if found == change.content:
            return
        if found != change.before:
            raise _wrong(change.name, "was changed while init ran", "run init again, which looks at it anew")
        partial = change.place.with_name(f".{change.place.name}.{secrets.token_hex(8)}")
        try:
            with partial.open("xb") as file:
                file.write(change.content)
                file.flush()
                os.fsync(file.fileno())
            if change.private:
                partial.chmod(0o600)
            with suppress(FileNotFoundError):
                _keep_owner(partial, change.place.stat())
            partial.replace(change.place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def marked(text: str) -> str:
    """The text with our mark at the end of its front matter."""
    head, fence, body = text.removeprefix("---\n").partition("\n---\n")
    assert fence, "a text of ours begins with front matter"
    return f"---\n{head}\nmetadata:\n  made-by: coordinate {_digest(text)}{fence}{body}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _look(root: Path, name: str) -> tuple[Path, bytes | None]:
    """Where a file really is and what it holds (None: it is not there), once it is sure that it may be written."""
    place = _inside(root, name)
    with _explained(name):
        if not place.exists():
            _need_writable_parent(place, name)
            return place, None
        if not place.is_file():
            raise _refused(name, "is there, but is no file", "move it away and run init again")
        if not _may(place, os.W_OK):
            raise _refused(name, "may not be written", "make it writable, and run init again")
        _need_writable_parent(place, name)
        return place, place.read_bytes()


def _inside(root: Path, name: str) -> Path:
    home = root.resolve()
    try:
        place = (home / name).resolve()
    except (OSError, RuntimeError):  # links that lead in a circle
        place = Path("/")
    if not place.is_relative_to(home):
        raise _refused(name, "is or lies behind a link that leads out of the folder", "put a file of its own there")
    return place


def _need_writable_parent(place: Path, name: str) -> None:
    parent = next(each for each in place.parents if each.exists())
    if not parent.is_dir():
        raise _refused(name, f"cannot be made: {parent} is no folder", "move it away and run init again")
    if not _may(parent, os.W_OK | os.X_OK):
        raise _refused(name, f"cannot be written: {parent} may not be changed", "run it as the folder's owner")


def _may(place: Path, mode: int) -> bool:
    return os.access(place, mode, effective_ids=os.access in os.supports_effective_ids)


def _keep_owner(partial: Path, before: os.stat_result) -> None:
    partial.chmod(before.st_mode & 0o7777)
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(partial, before.st_uid, before.st_gid)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        barred = no_entry(Path(error.filename or name))
        raise _refused(name, f"cannot be made: {barred.message}", "run it as the folder's owner") from None
    except OSError as error:
        hint = "make room for it, and run init again"
        raise _refused(name, f"cannot be made: {error.strerror or error}", hint) from None


def _refused(name: str, what: str, hint: str) -> PermissionDenied:
    return PermissionDenied(f"{name} {what}", hint=hint, path=name)


def _wrong(name: str, what: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{name} {what}", hint=hint, path=name, field="harness")
