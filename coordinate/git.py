"""What is asked of git. Whatever it cannot tell is raised as `Unknown`; what that means is the caller's to say.

A folder may be one that another named, and its settings another's doing: nothing that a repository's settings name is
run, whichever way git knows to run it, and nothing is written or fetched.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator

GIT_SECONDS = 30
SAID_MAX = 200
# Settings stronger than any of a repository. A checkout may bring a folder that git takes for a bare repository, with
# settings of its own: such a one must be meant.
_SETTINGS = ("core.fsmonitor=false", "safe.bareRepository=explicit")
# What is missing from a partial clone would be fetched, with a program that the repository names.
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


class Unknown(Exception):
    """Git cannot tell, and why."""


def ask(folder: str, *words: str, in_hook: bool = False, settings: Iterable[str] = ()) -> str:
    """The answer of a git command in a folder, by git's own `settings`.

    Inside a hook git names its repository and its index in the environment. That is what is meant by `in_hook`;
    otherwise the folder decides.
    """
    environment = {name: value for name, value in os.environ.items() if in_hook or not name.startswith("GIT_")}
    stronger = [word for each in (*_SETTINGS, *settings) for word in ("-c", each)]
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *stronger, "-C", folder, *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment | _NO_FETCH,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unknown(f"git cannot be asked: {error}"[:SAID_MAX]) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").split("\n")[0]
        raise Unknown(f"git cannot tell: {said}"[:SAID_MAX])
    return os.fsdecode(done.stdout)


def top(folder: str, *, in_hook: bool = False) -> str:
    """The top of the working copy that a folder lies in, with links resolved."""
    return os.path.realpath(ask(folder, "rev-parse", "--show-toplevel", in_hook=in_hook).removesuffix("\n"))


def must_be_top(folder: str) -> None:
    """Raises `Unknown` where a folder is not the top of a working copy."""
    if top(folder) != os.path.realpath(folder):
        raise Unknown(f"{folder} is no working copy of its own, so nobody can tell what is in it")


def uncommitted(folder: str) -> int:
    """How many files of a working copy, and of those within it, are changed or new and in no commit.

    Ignored files do not count. To see whether a file is changed git may have to pass it through a filter (as git-lfs
    is one): none is run, and such a file counts as changed when only a filter could say that it is not.
    """
    must_be_top(folder)
    said = ask(
        folder,
        *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty"),
        settings=_without_filters(folder),
    )
    # Git would look into them itself, by settings that are theirs.
    return said.count("\0") + sum(map(uncommitted, _within(folder)))


def _without_filters(folder: str) -> Iterator[str]:
    """Settings by which none of the filters that are set here is run."""
    for name in dict.fromkeys(ask(folder, "config", "--list", "--name-only", "-z").split("\0")):
        if name.startswith("filter."):
            if "=" in name:
                raise Unknown(f"{folder} has a filter whose name holds a =, which cannot be put aside")
            yield f"{name}={'false' if name.endswith('.required') else ''}"


def _within(folder: str) -> Iterator[str]:
    """The working copies of its submodules. What a link leads to is none of them."""
    for entry in ask(folder, "ls-files", "--stage", "-z").split("\0"):
        if entry.startswith("160000 "):
            place = os.path.join(os.path.realpath(folder), entry.partition("\t")[2])  # noqa: PTH118 - as git spells it
            if os.path.lexists(os.path.join(place, ".git")) and os.path.realpath(place) == place:  # noqa: PTH118
                yield place
