"""Setting up a project for its agents: the board's folder, role files and skills, a plan to begin with.

Running it again is harmless: the board is upgraded (after a backup), what is ours is brought up to date, and what is
the user's is left alone. The answer says of every file what became of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coordinate import config, hooks, inputs, service
from coordinate.addresses import NOT_WRITTEN_DOWN
from coordinate.db.dialect import is_postgres, remembered, way_to
from coordinate.errors import InvalidInput, NotFound, PermissionDenied
from coordinate.harness import files
from coordinate.plans import PLAN_BYTES_MAX, PlannedTask, ids_in, order_of, parse_plan, slug_of

TEXTS = Path(__file__).parent
ROLES = ("manager", "worker", "reviewer")
# What each role must know, and what all of them may need.
SKILLS = (*ROLES, "inbox")


@dataclass(frozen=True, slots=True)
class Harness:
    """Where a coding agent looks for its instructions; `agents` is None where it knows no role files, `settings` where
    it runs no hooks."""

    block: str
    agents: str | None
    skills: str
    settings: str | None = None


HARNESSES = {
    "claude": Harness("CLAUDE.md", ".claude/agents", ".claude/skills", ".claude/settings.json"),
    "codex": Harness("AGENTS.md", None, ".agents/skills"),
    "generic": Harness("AGENTS.md", ".agents", ".agents/skills"),
}

# What a harness runs at its events, so that its agent has a session and hears of answers.
HOOKS = {
    "SessionStart": "coordinate harness session-start",
    "UserPromptSubmit": "coordinate harness prompt-submit",
    "Stop": "coordinate harness stop",
}


@dataclass(frozen=True, slots=True)
class Skill:
    """What an agent must know, in a role or of a part: markdown with front matter; `file` is its name below a skills
    folder."""

    role: str
    name: str
    file: str
    description: str
    text: str


@dataclass(frozen=True, slots=True)
class Board:
    """The board that was made or upgraded: `before` is None when it is new, `backup` the copy made before."""

    database: str
    named_by: str
    before: str | None
    after: str
    backup: str | None


@dataclass(frozen=True, slots=True)
class Left:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class PlanDispatched:
    """The plan's tasks in its order; `already` of them were there from an earlier run."""

    tasks: tuple[str, ...]
    dispatched: int
    already: int


@dataclass(frozen=True, slots=True)
class Made:
    """What init did; paths are those from `directory`. `next` is what to type now."""

    directory: str
    board: Board
    harness: str | None
    made: tuple[str, ...]
    updated: tuple[str, ...]
    left_alone: tuple[Left, ...]
    plan: PlanDispatched | None
    warnings: tuple[str, ...]
    next: tuple[str, ...]


# --- skills -----------------------------------------------------------------------------------------------------------


def skills() -> list[Skill]:
    """The skills that this program brings, one for each role, and one for the inbox."""
    return [_skill(role) for role in SKILLS]


def skill(name: str) -> Skill:
    """One skill by its name, or by its role. Raises `NotFound`."""
    for each in skills():
        if name in (each.name, each.role):
            return each
    known = ", ".join(each.name for each in skills())
    raise NotFound(f"no skill is called {name!r}", hint=f"there are {known}")


def _skill(role: str) -> Skill:
    name = f"coordinate-{role}"
    text = _text(f"skills/{name}.md")
    described = next(line for line in text.splitlines() if line.startswith("description: "))
    return Skill(role, name, f"{name}/SKILL.md", described.removeprefix("description: "), text)


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="utf-8")


# --- init -------------------------------------------------------------------------------------------------------------


def init(
    directory: Path,
    *,
    harness: str | None,
    plan: Path | None,
    db: str | None,
    agent: str,
    warn: Callable[[str], None],
) -> Made:
    """Make `.coordinate/` with a board at head in a folder, and what the agents of a harness read.

    The board is `db`, else what `$COORDINATE_DB` or the folder's config.toml names, else a file in `.coordinate/`.
    Where the folder has no board yet, what the environment names is remembered in config.toml as `db` is, without its
    password: not every program that works here will have the variable. Files are all looked at before the first is
    written, and they are written last, so a refusal leaves everything as it was; only an older board may have been
    upgraded by then. `plan` is dispatched once: each of its tasks is known by the plan's file name, its project and its
    key or title, and one that was dispatched before is not dispatched again.
    Raises `PermissionDenied`, `InvalidInput`, `NotABoard` and what an upgrade may raise. Two at once do it once.
    """
    if not config.is_folder(directory):
        raise InvalidInput(f"{directory!s:.200} is no folder", hint="make it first", field="dir")
    directory = config.absolute(directory)
    planned = None if plan is None else _read_plan(plan)
    warnings = _doubts(directory)
    changes = [files.new_file(directory, f"{config.FOLDER}/.gitignore", b"*\n")]
    if change := _remember(directory, db, warnings):
        changes.append(change)
    if harness is not None:
        changes += _harness_files(directory, HARNESSES[harness])
    if agent:
        inputs.agent(agent)
    with _folders(directory) as made:
        board, target = _make_board(directory, db, warnings, ids_in(planned or ()))
        dispatched = None
        if planned is not None:
            dispatched = _dispatch(target, planned, directory / config.FOLDER, agent, warn)
        for change in changes:
            files.write(change)
    own = directory / config.FOLDER / config.BOARD
    if board.before is None and board.database == str(own):
        made.append(f"{config.FOLDER}/{config.BOARD}")
    if fault := config.untrusted(directory / config.FOLDER):
        warnings.append(f"{config.FOLDER} is not used for settings and hooks: {fault}")
    if harness is not None and shutil.which("coordinate") is None:
        warnings.append(_not_found(HARNESSES[harness]))
    return Made(
        directory=str(directory),
        board=board,
        harness=harness,
        made=(*made, *(each.name for each in changes if each.made)),
        updated=tuple(each.name for each in changes if each.content is not None and not each.made),
        left_alone=tuple(Left(each.name, each.why) for each in changes if each.content is None),
        plan=dispatched,
        warnings=tuple(warnings),
        next=(ONE_NAME, *NEXT) if harness is not None and HARNESSES[harness].settings else NEXT,
    )


def _not_found(harness: Harness) -> str:
    """What calls the command by its name, and how it could find it."""
    callers = ", ".join(each for each in (harness.settings, harness.block) if each)
    own = Path(sys.executable).parent / "coordinate"
    where = str(own) if own.exists() else f"{sys.executable} -m coordinate"
    return (
        f"coordinate is not on PATH, and {callers} call it by that name: put its folder on the PATH of whatever starts"
        f" your agents, or write there, and where an MCP client is set up, {where}"
    )


NEXT = (
    "coordinate task dispatch --title 'Write the parser' --role worker",
    "coordinate task claim-next --role worker --agent alice",
    "coordinate status",
)
# Hooks and an MCP server that act in two names are two agents, and an answer to one does not wake the other.
ONE_NAME = (
    "export COORDINATE_AGENT=alice   # before the harness starts: its hooks, its shells and coordinate mcp"
    ' --agent "$COORDINATE_AGENT" are then one agent'
)


def _doubts(directory: Path) -> list[str]:
    """A board that was in use from here until now is told, so that one truth does not become two unseen."""
    found = config.find_folder(directory)
    if found is None or found.parent.resolve() == directory.resolve():
        return []
    return [f"from now on {found} is not used here any more: the new folder is nearer"]


def _harness_files(directory: Path, harness: Harness) -> list[files.Change]:
    changes = [files.block(directory, harness.block, _text("block.md"))]
    if harness.agents is not None:
        changes += [
            files.whole_file(directory, f"{harness.agents}/{role}.md", _text(f"agents/{role}.md")) for role in ROLES
        ]
    changes += [files.whole_file(directory, f"{harness.skills}/{each.file}", each.text) for each in skills()]
    if harness.settings is not None:
        changes.append(files.hooks(directory, harness.settings, HOOKS))
    return changes


@contextmanager
def _folders(directory: Path) -> Iterator[list[str]]:
    """Make the folders that are not there; where the block raises, those in which nothing lies go again."""
    made = []
    try:
        for name in (config.FOLDER, f"{config.FOLDER}/hooks"):
            new = not (directory / name).exists()
            files.folder(directory, name)
            if new:
                made.append(name + "/")
        yield made
    except BaseException:
        for name in reversed(made):
            with suppress(OSError):
                (directory / name).rmdir()
        raise


def _make_board(directory: Path, db: str | None, warnings: list[str], awaited: Collection[str]) -> tuple[Board, str]:
    """`awaited`: tasks that must be there already, so that no board is made which cannot have them."""
    from coordinate.db import migrate  # Alembic: only here

    place = config.locate(db, start=directory)
    if place.refusals and (directory / config.FOLDER / config.CONFIG).exists():
        # It may name the board; a second one beside it would be worse than none.
        raise PermissionDenied(place.refusals[0], hint="put that right, and run init again")
    target, own = place.target, directory / config.FOLDER / config.BOARD
    kept = remembered(target)
    if not is_postgres(target):
        target = kept
    if awaited and not migrate.current(target, missing_ok=True).revisions:
        raise NotFound(
            f"the plan waits for {min(awaited)}, and a new board has no task",
            hint="name the board that has it with --db, or take that out of the plan",
        )
    if target != str(own) and own.exists():
        warnings.append(f"{own} is still there and is not used: {place.source} names another board")
    if place.source in ("--db", "$COORDINATE_DB") and target != kept:
        warnings.append(NOT_WRITTEN_DOWN)
    with way_to(target):
        upgraded = migrate.upgrade(target)
    return Board(upgraded.database, place.source, upgraded.before, upgraded.after, upgraded.backup), target


# --- config.toml ------------------------------------------------------------------------------------------------------


def _remember(directory: Path, db: str | None, warnings: list[str]) -> files.Change | None:
    """What is written down of the board's name. Only a `db` is refused where the folder names another already."""
    if db is not None:
        return _config_file(directory, db)
    named = os.environ.get("COORDINATE_DB")
    if not named or (directory / config.FOLDER / config.BOARD).exists():
        return None
    try:
        return _config_file(directory, named)
    except InvalidInput as error:
        if error.facts["field"] != "db" or not (directory / config.FOLDER / config.CONFIG).exists():
            raise
        warnings.append(f"{config.FOLDER}/{config.CONFIG} names another board than $COORDINATE_DB, or none")
        return None


def _config_file(directory: Path, db: str) -> files.Change | None:
    """The settings file that remembers `--db`; a file that is there is the user's, and must say the same already."""
    target = remembered(db)
    if target == str(directory / config.FOLDER / config.BOARD):
        return None
    name = f"{config.FOLDER}/{config.CONFIG}"
    try:
        content = f"db = {_toml(target)}\n".encode()
    except UnicodeEncodeError:
        raise InvalidInput("the address of the board is not UTF-8", field="db") from None
    change = files.new_file(directory, name, content)
    if change.content is None and _named_in(change.place) != target:
        raise InvalidInput(
            f"{name} is there already and names no board, or another",
            hint=f"write the line yourself: {content.decode().strip()}",
            field="db",
        )
    return change


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _named_in(path: Path) -> object:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig")).get("db")
    except ValueError:
        return None


# --- the plan ---------------------------------------------------------------------------------------------------------


def _read_plan(path: Path) -> list[PlannedTask]:
    try:
        with path.open("rb") as file:
            content = file.read(PLAN_BYTES_MAX + 1)
        if len(content) > PLAN_BYTES_MAX:
            raise InvalidInput("the plan is longer than 1 MiB", hint="split the plan", field="plan")
        text = content.decode()
    except OSError as error:
        raise InvalidInput(f"the plan {path} cannot be read: {error.strerror}", field="plan") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the plan {path} is not UTF-8 text", field="plan") from None
    planned = _known_again(order_of(parse_plan(text, source=path.name)), path.name, text)
    service.check_plan(planned)
    return planned


def _known_again(plan: list[PlannedTask], source: str, text: str) -> list[PlannedTask]:
    """Give every task a key by which a second run finds it, unless the plan gives it one.

    In markdown the first of two equal titles is what was alone before the other came, and had its slug for a key.
    """
    is_markdown = not text.lstrip("\ufeff \r\n\t").startswith(("{", "["))
    keys = {task.key for task in plan}
    titles: dict[str, set[str]] = {}
    for task in plan:
        titles.setdefault(slug_of(task.title), set()).add(task.title)
    seen: Counter[str] = Counter()
    named = []
    for task in plan:
        who = json.dumps([source, task.project, task.key or task.title])
        seen[who] += 1
        count, slug = seen[who], slug_of(task.title)
        if is_markdown and not task.key and count == 1 and slug not in keys and len(titles[slug]) == 1:
            who = json.dumps([source, task.project, slug or task.title])
        digest = hashlib.sha256(f"{who} {count}".encode()).hexdigest()[:32]
        named.append(replace(task, dedup_key=task.dedup_key or f"init:{digest}"))
    return named


def _dispatch(
    target: str, plan: list[PlannedTask], folder: Path, agent: str, warn: Callable[[str], None]
) -> PlanDispatched:
    with service.connect(target, agent=agent, after_commit=hooks.runner(folder, warn)) as coordinator:
        found = coordinator.dispatch_plan(plan=plan)
    already = sum(each.already for each in found)
    return PlanDispatched(tuple(each.task.id for each in found), len(found) - already, already)
