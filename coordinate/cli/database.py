"""The database itself: where it is, its schema, for DBAs. Loads Alembic only where migrations are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from coordinate import config
from coordinate.cli.declared import DURATION, OUTPUT_ONLY, OneOf, argument, command, option
from coordinate.cli.shared import BadUsage, Call, Exit, as_path, as_text
from coordinate.records import as_json


@command("where", example="coordinate db where")
def where(call: Call) -> None:
    """Say which board is meant, and why; opens nothing, and shows no password."""
    from coordinate.db.dialect import open_engine

    place = config.locate(call.target())
    engine = open_engine(
        place.target, create=False, patience=config.patience(place), synchronous=config.synchronous(place)
    )
    for said in (*place.refusals, *place.doubts):
        call.warn(said)
    call.show(
        {
            "database": engine.describe(),
            "engine": engine.name,
            "named_by": place.source,
            "folder": None if place.folder is None else str(place.folder),
        }
    )


@command("upgrade", example="coordinate db upgrade")
@argument("revision", required=False, default="head")
def upgrade(call: Call, revision: str) -> None:
    """Bring a board to the newest schema, or to REVISION; makes it if it is not there.

    A SQLite board is copied beside itself first ("backup"). At head already it does nothing.
    """
    from coordinate.db import migrate

    call.show(as_json(migrate.upgrade(_target(call), revision)))


@command("downgrade", example="coordinate db downgrade 0001")
@argument("revision")
def downgrade(call: Call, revision: str) -> None:
    """Take a board back to an older schema; a SQLite board is copied beside itself first."""
    from coordinate.db import migrate

    call.show(as_json(migrate.downgrade(_target(call), revision)))


@command("current", example="coordinate db current")
def current(call: Call) -> None:
    """Say where a board's schema stands, and up to which revision this program knows it.

    "window" is what `schema_window` says: the revision that set it, and the oldest that a writer must know.
    """
    from coordinate.db import knowledge, migrate

    standing = migrate.current(_target(call))
    call.show({**as_json(standing), "known": knowledge.HEAD, "at_head": standing.at_head})


@command("check", example="coordinate db check --wait 60s")
@option("--wait", type=DURATION, help="Wait so long until the board is at head. In vain: exit 8; moved: exit 7.")
def check(call: Call, wait: int | None) -> None:
    """Compare a board's tables with what this program expects; exit 2 when they differ. Says when a move's fence is up.

    For deployments: --wait lets a program start only once somebody has made or upgraded its board.
    """
    from coordinate.db import migrate

    if wait is not None and (missing := migrate.wait_for_head(_target(call), wait)) is not None:
        call.show({"differences": None, "not_ready": missing.as_dict()})
        raise Exit(8)
    differences = migrate.check(_target(call))
    fence = migrate.current(_target(call)).fence
    call.show({"differences": differences, **({"fence": fence} if fence else {})}, nothing="no differences")
    if differences:
        raise Exit(2)


@command("history", example="coordinate db history", takes=OUTPUT_ONLY)
def history(call: Call) -> None:
    """List the migrations that this program knows, oldest first."""
    from coordinate.db import migrate

    call.show(migrate.history())


@command("sql", example="coordinate db sql --engine postgresql > coordinate.sql")
@argument("revisions", required=False, default="base:head", metavar="[FROM:TO]")
@option("--engine", type=OneOf("sqlite", "postgresql"), help="Default: that of the board.")
@option("--down", is_flag=True, help="The way back; FROM:TO is needed.")
def sql(call: Call, revisions: str, engine: str | None, down: bool) -> None:
    """Print the migrations as plain SQL, for a DBA to read and run; touches no database."""
    from coordinate import errors
    from coordinate.db import migrate
    from coordinate.db.dialect import is_postgres

    try:
        chosen = engine or ("postgresql" if is_postgres(config.locate(call.target()).target) else "sqlite")
    except errors.NoBoard as error:
        error.hint = "say for which engine: --engine postgresql, or sqlite"
        raise
    call.show_text(migrate.sql(chosen, revisions, down=down), "sql")


@command("ini", example="coordinate db ini > alembic.ini", takes=OUTPUT_ONLY)
def ini(call: Call) -> None:
    """Print what a DBA with only the wheel puts into an alembic.ini."""
    from coordinate.db import migrate

    call.show_text(migrate.ini(), "ini")


@command("grant", example="coordinate db grant app | psql work")
@argument("role")
def grant(call: Call, role: str) -> None:
    """Print the GRANTs for the ROLE that runs the program on Postgres: rows of the board's tables, and nothing else.

    Only reads; a DBA runs what is printed. The role is made by you: CREATE ROLE app LOGIN.
    """
    from coordinate.db import server

    call.show_text(server.grants(server.home_of(_target(call)), as_text(role)), "sql")


@command("backup", example="coordinate db backup board-2030-01-31.db")
@argument("file", metavar="FILE")
def backup(call: Call, file: str) -> None:
    """Copy a SQLite board into one new file, while others use it; the copy is checked and its rows are counted.

    It holds all that was committed before the call. A board on Postgres is backed up by pg_dump: the refusal shows how.
    """
    from coordinate import errors
    from coordinate.db import backup, dialect, server

    target, place = _target(call), config.absolute(as_path(file))
    if dialect.is_postgres(target):
        raise errors.InvalidInput(
            "a board on Postgres is backed up by Postgres' own tool",
            hint=server.dump_command(target, place),
            field="db",
        )
    call.show(as_json(backup.export(config.path_of(target), place)))


@command("restore", example="coordinate db restore board-2030-01-31.db")
@argument("file", metavar="FILE", required=False)
@option("--replace", is_flag=True, help="A board that is there is meant; it is kept beside the new one.")
@option("--settle", is_flag=True, help="No FILE: the board was put back by other means, such as pg_restore.")
@option("--yes", is_flag=True, help="With --settle: it was put back indeed, and the agents are stopped.")
def restore(call: Call, file: str | None, replace: bool, settle: bool, yes: bool) -> None:
    """Put a backup in the place of a SQLite board, in one step, and let nothing of the later days come twice.

    Every claim, lease and lock of the backup ends, since nobody can tell who holds what since then; and all numbers go
    on above those of the board that is replaced: "known" says that these could be read; else (it is damaged, lost, or
    another board), and with --settle always, numbers go on by a wide margin. On Postgres: stop the agents, pg_restore,
    db grant, then --settle --yes.
    """
    from coordinate import errors, service
    from coordinate.db import dialect, server

    if settle == (file is not None) or (settle and replace) or (yes and not settle):
        raise BadUsage("name a FILE to restore, or say --settle")
    if settle and not yes:
        raise errors.InvalidInput(
            "settling ends every claim, lease and lock of this board, and lets its numbers leap",
            hint="only for a board that was just put back, while no agent runs: then say --yes too",
            field="yes",
        )
    if settle:
        call.show(service.settle(call.target()))
        return
    target, source = _target(call), config.absolute(as_path(file or ""))
    if dialect.is_postgres(target):
        said = "a board on Postgres is restored by Postgres' own tool, into an empty schema"
        shown = server.restore_command(target, source)
        hint = (
            "stop the agents; where a board is there that this replaces, dump it, then coordinate db downgrade base;"
            f" {shown}; then let coordinate db grant ROLE print what the agents' role needs;"
            " last, as the owner of the tables: coordinate db restore --settle --yes"
        )
        raise errors.InvalidInput(said, hint=hint, field="db")
    call.show(service.restore(source, call.target(), replace=replace))


@command("doctor", example="coordinate db doctor --deep")
@option("--deep", is_flag=True, help="Read all of it: integrity, rows that contradict one another, the schema.")
@option("--repair", is_flag=True, help="Do what the answer calls its repair; includes --deep.")
def doctor(call: Call, deep: bool, repair: bool) -> None:
    """Look at a board as a doctor would: what it is, and what is wrong with it; exit 2 when there is a fault.

    Each symptom says what it means, where it was found, and what to do. Where what is right follows from other rows,
    "repair" says what --repair does about it; without it nothing is changed. Of a move that was not finished it looks
    at both sides, and says what to run; the rows of a board that moves, or has moved, are not repaired.
    """
    from coordinate import errors
    from coordinate.db import doctor

    examined = doctor.examine(_target(call), deep=deep or repair, repair=repair)
    symptoms = examined.symptoms
    fence = examined.facts.get("fence", {}).get("state")
    if (deep or repair) and examined.at_head and fence not in ("arriving", "copied", "withdrawn"):
        try:
            with call.board() as board:
                symptoms += board.repair() if repair and fence is None else board.examine()
        except errors.NotABoard as error:
            symptoms.append(doctor.lacking(error))
    healthy = not [each for each in symptoms if each.severity == "fault" and each.repaired < each.count]
    call.show({"healthy": healthy, **examined.facts, "symptoms": as_json(symptoms)})
    if not healthy:
        raise Exit(2)


@command("move", example="coordinate db move --to postgresql://dba@db.example/work --dry-run")
@option("--to", "to", metavar="URL|PATH", help="The new place: made if it is not there, and empty.")
@option("--from", "from_", metavar="URL|PATH", help="The board to move. Default: the one of this folder.")
@option("--dry-run", is_flag=True, help="Only check; list all that stands in the way.")
@option("--resume", is_flag=True, help="Go on with a move whose program was killed; --to is known then.")
@option("--undo", is_flag=True, help="Give the move up, while nothing was written at the new place.")
@option("--switch", is_flag=True, help="Then let this folder's config.toml name the new place.")
def move(call: Call, to: str | None, from_: str | None, dry_run: bool, resume: bool, undo: bool, switch: bool) -> None:
    """Move a board to another database, from a file to Postgres or back, and prove that all of it came.

    Meanwhile writers are told to wait (exit 5, "moving"), and afterwards where the board is (exit 7, "moved"); readers
    still read. Live leases get the time back that it took. The old board is left as it was. A move that fails or is
    undone leaves the new place closed: it says where the board is. --undo --from OLD --to NEW, said once more when the
    move is over, empties and opens it for other use.
    """
    import json

    from coordinate import addresses, errors
    from coordinate.db import dialect, sides
    from coordinate.db import move as moving

    if undo + resume + dry_run > 1 or (undo and switch):
        raise BadUsage("--dry-run, --resume and --undo do not go together")
    if to is None and not (undo or resume):
        raise BadUsage("say where to: --to URL or --to PATH")
    if "" in (to, from_):
        raise BadUsage("--from and --to each name a place: one of them is empty")
    place = config.locate(as_path(from_) if from_ else call.target())
    target = None if to is None else as_path(to)
    if undo:
        call.show(as_json(moving.undo(place.target, target)))
        return
    folder = place.folder
    if switch and (folder is None or place.refusals):
        raise BadUsage("--switch needs a .coordinate folder of yours here, whose config.toml it writes")
    if switch and folder:
        config.switched(folder, "…")  # better refused now than when it has moved
        here = sides.side_of(config.board_of(folder, place.settings)[0])
        if here.identity() is not None and not sides.same_place(here, sides.side_of(place.target)):
            raise BadUsage(f"--switch is for the board that this folder names, which is {here.engine.describe()}")
    with _bar(place.target) as progress:
        report = moving.move(place.target, target, dry_run=dry_run, resume=resume, progress=progress)
    switched: str | None = None
    refused: errors.CoordinateError | None = None
    # Others are told no path of a passfile; this folder, which was given one, needs it.
    kept = report.target if target is None else sides.side_of(target).engine.address(here=True)
    if switch and folder and report.state == "moved":
        try:
            switched = str(config.switch(folder, kept))
        except errors.CoordinateError as error:
            refused = error
        if target is not None and dialect.is_postgres(target) and dialect.remembered(target) != target:
            call.warn(addresses.NOT_WRITTEN_DOWN)
    call.show({**as_json(report), "switched": switched})
    if refused is not None:  # the move stands
        said = f"the board has moved to {report.target}, but this folder still names the old place"
        refused.message = f"{said}: {refused.message}"
        refused.hint = f"write into {folder}/config.toml: db = {json.dumps(kept, ensure_ascii=False)}"
        raise refused


@contextmanager
def _bar(source: str) -> Iterator[Callable[[str, str, int, int], None] | None]:
    """Rows and bytes, for people who look at it."""
    from coordinate import errors
    from coordinate.db import move as moving

    rows = 0
    if sys.stderr.isatty():
        with suppress(errors.CoordinateError):  # what is wrong with the board, the move says
            rows = 2 * moving.rows_of(source)
    if not rows:
        yield None
        return
    import click

    total = 0

    def show(doing: str, table: str, count: int, size: int) -> None:
        nonlocal total
        total += size
        bar.update(count, f"{doing} {table}, {total / 1e6:,.1f} MB")

    with click.progressbar(
        length=rows,
        file=sys.stderr,
        show_pos=True,
        show_eta=False,  # copying and comparing do not go at one speed
        update_min_steps=max(1, rows // 200),
        item_show_func=lambda item: item,
    ) as bar:
        yield show


def _target(call: Call) -> str:
    return config.locate(call.target()).target
