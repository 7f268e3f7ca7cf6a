"""`coordinate init` and `coordinate skill`: a project made ready for its agents."""

from __future__ import annotations

import os
from pathlib import Path

from coordinate import harness as setting_up
from coordinate.cli.declared import OUTPUT_ONLY, OneOf, argument, command, option
from coordinate.cli.root import LazyGroup
from coordinate.cli.shared import Call


@command("init", example="coordinate init --harness claude --plan plan.md")
@option("--harness", type=OneOf(*setting_up.HARNESSES), help="Whose role files and skills to write.")
@option("--plan", metavar="FILE", help="A plan to dispatch, once: markdown, JSON or JSONL.")
@option("--dir", "directory", default=".", metavar="FOLDER", help="Where. Default: here.")
def init(call: Call, harness: str | None, plan: str | None, directory: str) -> None:
    """Make a board here, and with --harness what its agents read.

    That is role files, skills, and a marked block in CLAUDE.md or AGENTS.md. The board is a file in .coordinate/, or
    what --db names, which is remembered without its password. Running it again is harmless: the board is upgraded
    after a backup, a file of ours is brought up to date unless somebody edited it, and what you wrote is never
    touched. The answer says what became of each file.
    """
    made = setting_up.init(
        _path(directory),
        harness=harness,
        plan=None if plan is None else _path(plan),
        db=call.target(),
        agent=call.agent,
        warn=call.warn,
    )
    call.show(made)


@command("list", example="coordinate skill list", takes=OUTPUT_ONLY)
def list_skills(call: Call) -> None:
    """List the skills: role, name, file, description."""
    call.show(
        [
            {"role": each.role, "name": each.name, "file": each.file, "description": each.description}
            for each in setting_up.skills()
        ]
    )


@command("view", example="coordinate skill view worker", takes=OUTPUT_ONLY)
@argument("name")
def view_skill(call: Call, name: str) -> None:
    """Print a skill, by its name or role, as the markdown that it is."""
    call.show_text(setting_up.skill(name).text, "markdown")


skill = LazyGroup(
    "skill",
    {
        "list": ("init", "list_skills", "List the skills: role, name, file, description."),
        "view": ("init", "view_skill", "Print a skill as markdown."),
    },
    takes=OUTPUT_ONLY,
    help="What an agent in a role must know, as short texts.",
)


def _path(given: str) -> Path:
    """A path as the system spells it (see `__main__` on locales)."""
    return Path(os.fsdecode(given.encode("utf-8", "surrogateescape")))
