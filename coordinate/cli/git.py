"""What the doors ask git. Whatever it cannot tell is raised as `Unknown`; what that means is the caller's to say."""

from __future__ import annotations

import os
import subprocess

GIT_SECONDS = 30
SAID_MAX = 200


class Unknown(Exception):
    """Git cannot tell, and why."""


def ask(folder: str, *words: str, in_hook: bool = False) -> str:
    """The answer of a git command in a folder.

    Inside a hook git names its repository and its index in the environment. That is what is meant by `in_hook`;
    otherwise the folder decides. Nothing is locked, and no program that a repository names is run.
    """
    environment = {name: value for name, value in os.environ.items() if in_hook or not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", folder, *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
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
