"""The floors of the house: who may import whom, who may name a database. Read from the source, nothing is run.

ground ← db ← shared ← wings (never one another) ← flows ← service ← doors, which import service and ground only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "coordinate"

GROUND = {"addresses", "errors", "states", "records", "paths", "plans", "inputs", "config", "frozen", "signals", "git"}
SHARED = {"leases", "counters", "events", "shared_statements", "checkup_statements"}
WINGS = {"work", "fleet", "inbox"}
FLOORS = ["ground", "db", "shared", "wing", "flows", "service", "door"]
# Above the house, not in it: the public names, and what prints pages and files from every room.
ROOF = {"", "__main__", "compile_sql", "reference"}

# The command group `db`, and what makes a board.
MAY_MIGRATE = {"cli.database", "harness"}

# Core is for what is built or migrated, not for what runs.
MAY_IMPORT_SQLALCHEMY = re.compile(r"(\w+\.)?(\w+_)?statements|db\.(portable|schema|names|env|sides)|reference")
MAY_IMPORT_ALEMBIC = {"db.env", "db.migrate"}

# What the extra brings, and the rooms that need it: nobody else pays for its import.
OF_THE_EXTRA = {
    "mcp": ("mcp", "http"),
    "mcp_types": ("mcp",),
    "anyio": ("mcp", "http"),
    "starlette": ("http",),
    "uvicorn": ("http",),
    "jinja2": ("http",),
    "markupsafe": ("http",),
}

MAY_NAME_A_DATABASE = {
    "db.dialect": "all that the engines do differently while the program runs",
    "db.portable": "how an expression prints on either",
    "db.schema": "columns and tables that only one of them needs, partial indexes",
    "db.env": "how migrations run on either",
    "db.names": "which things bear names on either, and where they are listed",
    "db.migrate": "prints the SQL of one, opens the file of the other",
    "db.sides": "the two ends of a move: how rows are read, written and fenced on either",
    "db.backup": "a backup of a SQLite file, by nature",
    "db.doctor": "looks at a SQLite file and at a Postgres server, by nature",
    "db.restore": "a backup of a SQLite file, by nature",
    "db.server": "roles and tools of a Postgres server, by nature",
    "addresses": "where an address begins in what is said",
    "config": "how hard SQLite syncs, a setting",
    "compile_sql": "the titles of the two files",
    "shared_statements": "which statement only one engine needs",
    "work.statements": "which statement only one engine needs",
    "work.kanban": "reads the SQLite files of another tool",
    "work.tidying": "reads the SQLite files of another tool",
    "service": "asks whether an address is a path, whose folder it makes",
    "harness": "asks whether an address is a path, whose folder it makes",
    "cli.database": "prints the SQL of the one that is asked for",
    "reference": "words for readers of the documentation",
}
DATABASE = re.compile(r"sqlite|postgres|psycopg|\bpg_", re.IGNORECASE)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def floor(module: str) -> str:
    room = module.split(".", maxsplit=1)[0]
    named = {"db": "db", "flows": "flows", "checkup": "flows", "service": "service"} | dict.fromkeys(WINGS, "wing")
    named |= dict.fromkeys(GROUND, "ground") | dict.fromkeys(SHARED, "shared")
    return named.get(room, "door")


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports, wherever in it; of ours without the package's name, down to the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.removeprefix("coordinate.") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the floor"
            for each in node.names:
                inner = f"{node.module}.{each.name}".replace(".", "/")
                ours = (CHECKOUT / inner).is_dir() or (CHECKOUT / f"{inner}.py").is_file()
                yield (f"{node.module}.{each.name}" if ours else str(node.module)).removeprefix("coordinate.")


def is_ours(name: str) -> bool:
    return name == "coordinate" or any(
        (PACKAGE / name.replace(".", "/")).with_suffix(end).exists() for end in ("", ".py")
    )


def may_import(module: str, other: str) -> bool:
    here, there = floor(module), floor(other)
    if module in ROOF or module.split(".", maxsplit=1)[0] == other.split(".", maxsplit=1)[0]:
        return True  # within one room
    if here == "door":
        return there in ("ground", "service", "door") or (module in MAY_MIGRATE and there == "db")
    return other != "coordinate" and FLOORS.index(there) <= FLOORS.index(here) and not here == there == "wing"


def test_imports_go_down_the_floors_only_and_wings_do_not_know_each_other() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, tree in modules()
        for other in imports(tree)
        if is_ours(other) and not may_import(module, other)
    ]
    assert wrong == []


def test_no_door_reads_a_clock_of_its_own_but_to_show_a_table() -> None:
    """Time is the board's: `2h from now` said by a machine whose clock is late would be the past there."""
    doors = [
        (module, ast.unparse(tree)) for module, tree in modules() if module.split(".")[0] in ("cli", "http", "mcp")
    ]
    assert [module for module, text in doors if re.search(r"datetime\.(now|utcnow)\(", text)] == ["cli.table"]


def test_only_what_is_compiled_or_migrates_imports_sqlalchemy_and_alembic() -> None:
    for module, tree in modules():
        outside = {name.split(".")[0] for name in imports(tree)}
        assert "sqlalchemy" not in outside or MAY_IMPORT_SQLALCHEMY.fullmatch(module), module
        assert "alembic" not in outside or module in MAY_IMPORT_ALEMBIC, module


def test_what_the_extra_brings_stays_in_its_rooms() -> None:
    for module, tree in modules():
        for name in imports(tree):
            # `coordinate.mcp` is a room of ours: its name was cut to `mcp`, and is followed by a module.
            library, _, inner = name.partition(".")
            ours = library == "mcp" and (PACKAGE / "mcp" / f"{inner}.py").exists()
            if library in OF_THE_EXTRA and not ours:
                assert module.split(".")[0] in OF_THE_EXTRA[library], f"{module} imports {name}"


def test_only_the_rooms_listed_here_name_a_database() -> None:
    """In code: names and strings. Docstrings may, and so may what people are shown: messages, hints, help."""
    named = {}
    for module, tree in modules():
        spoken = {id(part) for node in ast.walk(tree) for part in _spoken(node)}
        for node in ast.walk(tree):
            if id(node) not in spoken and (found := DATABASE.search(_word(node))):
                named.setdefault(module, f"{found[0]} in line {getattr(node, 'lineno', 0)}")
    assert {module: where for module, where in named.items() if module not in MAY_NAME_A_DATABASE} == {}


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return str(getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "module", None) or "")


def _spoken(node: ast.AST) -> Iterator[ast.AST]:
    """The strings within a node that are for people."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.keyword) and node.arg in ("hint", "help", "epilog", "short_help"):
        yield from ast.walk(node.value)
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from ast.walk(node.exc)


def test_no_module_has_a_power_worked_out_while_it_is_compiled() -> None:
    """A signal that comes while a module is compiled is met in that step, and what its handler raises is dropped."""
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                of_constants = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
                assert not of_constants, f"{name} line {node.lineno}: write the number out"


def test_migrations_import_nothing_of_ours() -> None:
    for path in sorted((CHECKOUT / "alembic" / "versions").glob("*.py")):
        assert not [name for name in imports(ast.parse(path.read_text())) if is_ours(name)], path
    assert not list((CHECKOUT / "alembic").rglob("__init__.py")), "it would hide the library of that name"


def test_the_floors_refuse_what_they_should() -> None:
    refused = [("errors", "db.engine"), ("db.engine", "events"), ("events", "work.claims"), ("work.claims", "service")]
    refused += [
        ("work.claims", "inbox.asks"),
        ("fleet.locks", "work.tasks"),
        ("cli.tasks", "work.tasks"),
        ("demo", "db.env"),
    ]
    refused += [("work.claims", "coordinate"), ("inputs", "cli.shared"), ("flows", "service")]
    assert [pair for pair in refused if may_import(*pair)] == []
    allowed = [("flows", "inbox.asks"), ("flows", "work.claims"), ("service", "flows"), ("cli.tasks", "service")]
    allowed += [("cli.database", "db.migrate"), ("work.claims", "work.story"), ("work.claims", "db.engine")]
    assert [pair for pair in allowed if not may_import(*pair)] == []
