"""What the benches take on the command line; nonsense is refused before anything is measured."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def new_file(text: str) -> Path:
    """A file that can be written once all is measured."""
    path = Path(text)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise ArgumentTypeError(f"{path} is a folder")
    return path
