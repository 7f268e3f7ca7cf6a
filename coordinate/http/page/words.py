"""Templates, and how values are shown in them.

Whatever an agent wrote is text: it is escaped, what would change the reading direction or hide itself is shown by its
number, and no address is ever made of it. All values of all templates pass through here, so none can be forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent
# Controls but for tab and line feed, marks of reading direction, invisible characters; not the joiners of scripts and
# emoji.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def seen(value: Any) -> Any:
    """A value as a reader may see it: text without anything hidden. What is markup already stays."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return _UNSEEN.sub(lambda found: f"\u27e8{ord(found[0]):04X}\u27e9", str(value))


def exact(value: str) -> Markup:
    """A value to be sent back as it is: of a hidden field, or a person's own words to go on with."""
    return Markup("{}").format(value)


def as_text(value: Any) -> str:
    """A payload as JSON that people can read."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def when(moment: datetime | None, now: datetime) -> Markup:
    """A moment as far from now, by the board's clock; the exact time beside it."""
    if moment is None:
        return Markup("")
    seconds = (moment - now).total_seconds()
    said = span(abs(seconds))
    told = "just now" if abs(seconds) < 5 else f"in {said}" if seconds > 0 else f"{said} ago"
    return Markup('<time datetime="{}" title="{:%Y-%m-%d %H:%M:%S} UTC">{}</time>').format(
        _rfc(moment), moment.astimezone(UTC), told
    )


def left(moment: datetime, now: datetime) -> Markup:
    """How long something lasts yet, or since when its time is past."""
    said = span(abs((moment - now).total_seconds()))
    told = f"{said} left" if moment > now else f"past its time since {said}"
    return Markup('<time class="{}" datetime="{}" title="until {:%Y-%m-%d %H:%M:%S} UTC">{}</time>').format(
        "" if moment > now else "warm", _rfc(moment), moment.astimezone(UTC), told
    )


def _rfc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def span(seconds: float) -> str:
    """A length of time in one or two words."""
    for unit, size, least in (("d", 86_400, 2), ("h", 3_600, 1), ("min", 60, 1)):
        count = seconds / size
        if count >= 0.99 * least:  # 2 hours are 2 hours also when a second of them is gone
            return f"{round(count, 1):g} {unit}" if unit != "min" and count < 9.95 else f"{round(count)} {unit}"
    return f"{round(seconds)} s" if seconds >= 1 else "under 1 s"


def where(path: str, **parameters: Any) -> str:
    """An address of ours: only its parameters hold what others wrote, and these are quoted."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given)}" if given else path


def place(reference: str | None) -> str | None:
    """Where a task or an ask that is named has its page; None for anything else."""
    if reference and (found := re.fullmatch(r"(TASK|ASK)-[1-9][0-9]{0,17}(?:@[0-9]+)?", reference, re.ASCII)):
        return f"/{found[1].lower()}s/{reference.partition('@')[0]}"
    return None


def render(template: str, values: Mapping[str, Any]) -> str:
    return _templates.get_template(template).render(values)


_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    finalize=seen,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"exact": exact, "as_text": as_text, "span": span}
_templates.globals |= {"when": when, "left": left, "where": where, "place": place}
