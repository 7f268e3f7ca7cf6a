"""`coordinate init`: a project made ready, again and again, without a word of the user's lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import coordinate
from coordinate import harness
from coordinate.addresses import without_secret
from coordinate.db import migrate
from coordinate.errors import CoordinateError, InvalidInput, NotABoard, NotFound, Unreachable
from coordinate.harness import files

BLOCK = re.compile(rb"<!-- coordinate:begin -->\r?\n.*?<!-- coordinate:end -->", re.DOTALL)
PLAN = """# Search

## [p10] [key:index] Build the index
## [after:index] Answer queries
## Measure
## Measure
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATE_")}
    return {**clean, "PYTHONPATH": str(Path(coordinate.__file__).parents[1]), **more}


def start(where: Path, *args: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "coordinate", *args],
        cwd=where,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(where: Path, *args: str, **more: str) -> dict:
    """Run a command that must succeed with one JSON document and nothing else."""
    running = start(where, *args, **more)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, ""), err
    return json.loads(out)


def refused(where: Path, *args: str, **more: str) -> dict:
    """Run a command that must be refused with exit 2 and one JSON line."""
    running = start(where, *args, **more)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (2, ""), out + err
    (line,) = err.splitlines()
    return json.loads(line)


def set_up(where: Path, name: str | None = "claude", **more: object) -> harness.Made:
    """The same without a process, for the many cases of files."""
    given: dict = {"plan": None, "db": None, "agent": "", "warn": pytest.fail}
    return harness.init(where, harness=name, **{**given, **more})


def tree(where: Path) -> dict[str, bytes]:
    """Every file of a project but the board's own."""
    found = {str(path.relative_to(where)): path.read_bytes() for path in where.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if "board.db" not in name}


@pytest.fixture(autouse=True)
def no_board_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("COORDINATE_")]:
        monkeypatch.delenv(name)


# --- the board --------------------------------------------------------------------------------------------------------


def test_init_makes_a_private_folder_with_a_board_at_head(project: Path) -> None:
    made = run(project, "init")
    assert made["made"] == [".coordinate/", ".coordinate/hooks/", ".coordinate/board.db", ".coordinate/.gitignore"]
    assert made["board"]["before"] is None
    assert made["harness"] is None
    assert made["warnings"] == made["updated"] == made["left_alone"] == []
    folder = project / ".coordinate"
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE((folder / "hooks").stat().st_mode) == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    assert migrate.current(str(folder / "board.db")).at_head
    assert sorted(path.name for path in project.iterdir()) == [".coordinate"]


def test_the_next_three_commands_can_be_typed_as_they_stand(project: Path) -> None:
    made = run(project, "init")
    assert len(made["next"]) == 3
    for command in made["next"]:
        done = subprocess.run(
            ["sh", "-c", command.replace("coordinate", f'"{sys.executable}" -m coordinate', 1)],
            cwd=project,
            env=environment(),
            capture_output=True,
            check=True,
            text=True,
        )
        assert json.loads(done.stdout)


@pytest.mark.parametrize("name", list(harness.HARNESSES))
def test_a_second_run_changes_nothing(project: Path, name: str) -> None:
    first = run(project, "init", "--harness", name)
    before = tree(project)
    second = run(project, "init", "--harness", name)
    assert tree(project) == before
    assert second["made"] == second["updated"] == []
    files = {each for each in first["made"] if not each.endswith("/")}
    assert {each["path"] for each in second["left_alone"]} == files - {".coordinate/board.db"}
    assert {each["why"] for each in second["left_alone"]} == {"up to date"}
    assert second["board"]["before"] == second["board"]["after"]
    assert second["board"]["backup"] is None


def test_an_older_board_is_upgraded_after_a_backup(project: Path) -> None:
    set_up(project, None)
    target = project / ".coordinate/board.db"
    migrate.downgrade(str(target), "0001")
    made = run(project, "init")
    assert made["board"]["before"] == "0001"
    assert migrate.current(str(target)).at_head
    assert migrate.current(made["board"]["backup"]).revisions == ("0001",)


def test_something_else_in_the_boards_place_is_refused_and_kept(project: Path) -> None:
    """AL-13"""
    import sqlite3

    set_up(project, None)
    target = project / ".coordinate/board.db"
    target.unlink()
    with closing(sqlite3.connect(target)) as other:
        other.execute("CREATE TABLE tasks (name TEXT)")
    before = target.read_bytes()
    running = start(project, "init", "--harness", "claude")
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (6, "")
    assert json.loads(err)["code"] == "not_a_board"
    assert target.read_bytes() == before
    assert not (project / "CLAUDE.md").exists()


def test_eight_at_once_make_one_of_everything(project: Path) -> None:
    (project / "plan.md").write_text(PLAN)
    (project / "CLAUDE.md").write_text("Mine.\n")
    running = [start(project, "init", "--harness", "claude", "--plan", "plan.md") for _ in range(8)]
    said = [each.communicate(timeout=120) for each in running]
    assert [each.returncode for each in running] == [0] * 8, said
    assert (project / "CLAUDE.md").read_bytes().count(files.BEGIN) == 1
    assert (project / "CLAUDE.md").read_bytes().startswith(b"Mine.\n")
    assert not [name for name in tree(project) if re.search(r"\.[0-9a-f]{16}$", name)]
    with coordinate.connect(project / ".coordinate/board.db") as board:
        assert board.stats().total_tasks == 4


def test_a_board_above_that_is_no_longer_used_is_told(project: Path) -> None:
    set_up(project, None)
    inner = project / "packages/api"
    inner.mkdir(parents=True)
    (warning,) = run(inner, "init")["warnings"]
    assert str(project / ".coordinate") in warning
    assert run(inner, "init")["warnings"] == []


def test_a_folder_that_others_can_write_is_told(project: Path) -> None:
    set_up(project, None)
    (project / ".coordinate").chmod(0o770)
    (warning,) = set_up(project, None).warnings
    assert "can be written by others" in warning


def test_a_command_that_agents_will_not_find_is_told_with_where_it_is(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (warning,) = set_up(project).warnings
    assert "coordinate is not on PATH, and .claude/settings.json, CLAUDE.md call it" in warning
    assert str(Path(sys.executable).parent) in warning
    assert set_up(project, None).warnings == ()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/coordinate").write_text("#!/bin/sh")
    (tmp_path / "bin/coordinate").chmod(0o755)
    assert set_up(project).warnings == ()


@pytest.mark.parametrize("umask", ["000", "002", "077"])
def test_what_init_makes_is_trusted_whatever_the_umask(project: Path, tmp_path: Path, umask: str) -> None:
    command = f'umask {umask}; exec "{sys.executable}" -m coordinate init --db "{tmp_path}/b.db" --harness claude'
    done = subprocess.run(["sh", "-c", command], cwd=project, env=environment(), capture_output=True, check=True)
    assert "can be written by others" not in str(json.loads(done.stdout)["warnings"])
    assert run(project, "init")["board"]["database"] == f"{tmp_path}/b.db"
    assert stat.S_IMODE((project / "CLAUDE.md").stat().st_mode) == 0o666 & ~int(umask, 8)


def test_settings_that_are_not_trusted_are_not_passed_over(project: Path, tmp_path: Path) -> None:
    set_up(project, None, db=str(tmp_path / "team.db"))
    (project / ".coordinate").chmod(0o770)
    assert "can be written by others" in refused(project, "init")["error"]
    assert not (project / ".coordinate/board.db").exists()


def test_no_second_board_is_made_where_refused_settings_may_name_the_first(project: Path, tmp_path: Path) -> None:
    set_up(project, None, db=str(tmp_path / "team.db"))
    (project / ".coordinate").chmod(0o777)
    assert "can be written by others" in refused(project, "db", "upgrade")["error"]
    assert not (project / ".coordinate" / "board.db").exists()


def test_init_in_another_folder(project: Path) -> None:
    (project / "sub").mkdir()
    made = run(project, "init", "--dir", "sub", "--harness", "codex")
    assert made["directory"] == str(project / "sub")
    assert (project / "sub/AGENTS.md").exists()
    assert sorted(path.name for path in project.iterdir()) == ["sub"]
    for name in ("nowhere", "n" * 300):
        assert "is no folder" in refused(project, "init", "--dir", name)["error"]
    assert not (project / "nowhere").exists()


# --- naming a board ---------------------------------------------------------------------------------------------------


def test_a_named_board_is_made_and_remembered(project: Path) -> None:
    made = run(project, "init", "--db", 'shared/boards#1/my %20 "board".db')
    board = project / 'shared/boards#1/my %20 "board".db'
    assert made["board"]["database"] == str(board)
    assert ".coordinate/config.toml" in made["made"]
    assert board.exists() and not (project / ".coordinate/board.db").exists()
    (project / "sub").mkdir()
    run(project / "sub", "task", "dispatch", "--title", "t", "--role", "worker")
    with coordinate.connect(board) as found:
        assert found.stats().total_tasks == 1
    again = run(project, "init")
    assert again["board"]["database"] == str(board)
    assert again["board"]["named_by"].endswith("config.toml")


def test_a_named_board_on_either_engine(project: Path, db_url: str) -> None:
    made = run(project, "init", "--db", db_url)
    assert made["board"]["before"] is None
    run(project, "task", "dispatch", "--title", "t", "--role", "worker")
    with coordinate.connect(db_url) as board:
        assert board.stats().total_tasks == 1


def test_a_board_that_the_environment_names_is_remembered_for_whoever_lacks_it(project: Path, tmp_path: Path) -> None:
    named = str(tmp_path / "elsewhere.db")
    made = run(project, "init", COORDINATE_DB=named)
    assert made["board"]["named_by"] == "$COORDINATE_DB"
    assert sorted(tree(project)) == [".coordinate/.gitignore", ".coordinate/config.toml"]
    assert run(project, "db", "where")["database"] == named
    before = tree(project)
    (warning,) = run(project, "init", COORDINATE_DB=str(tmp_path / "two.db"))["warnings"]
    assert "config.toml names another board" in warning
    assert tree(project) == before


def test_a_board_that_is_there_is_kept_when_the_environment_names_another(project: Path, tmp_path: Path) -> None:
    set_up(project, None)
    (warning,) = run(project, "init", COORDINATE_DB=str(tmp_path / "two.db"))["warnings"]
    assert "board.db is still there" in warning
    assert sorted(tree(project)) == [".coordinate/.gitignore"]


def test_another_board_is_not_named_over_the_one_that_is_there(project: Path, tmp_path: Path) -> None:
    set_up(project, None, db=str(tmp_path / "one.db"))
    before = tree(project)
    set_up(project, None, db=str(tmp_path / "one.db"))
    said = refused(project, "init", "--db", str(tmp_path / "two.db"))
    assert str(tmp_path / "two.db") in said["hint"]
    assert tree(project) == before
    assert not (tmp_path / "two.db").exists()


def test_a_board_that_is_shadowed_is_told(project: Path, tmp_path: Path) -> None:
    set_up(project, None)
    (warning,) = set_up(project, None, db=str(tmp_path / "two.db")).warnings
    assert "board.db is still there and is not used" in warning


def test_naming_the_board_that_is_used_anyway_writes_no_settings(project: Path) -> None:
    run(project, "init", "--db", ".coordinate/board.db")
    assert sorted(tree(project)) == [".coordinate/.gitignore"]


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("postgresql://u:s3cret@h:5433/db", "postgresql://u@h:5433/db"),
        ("postgres://u:s3cret@h1:1,h2:2/db?sslmode=require", "postgres://u@h1:1,h2:2/db?sslmode=require"),
        ("postgresql://u:s3cret@[::1]/db", "postgresql://u@[::1]/db"),
        ("postgresql://u:s3cret?s3cret@h/db?a=b", "postgresql://u@h/db?a=b"),
        ("postgresql://:s3cret@h/db", "postgresql://@h/db"),
        ("postgresql:///db?host=/run&password=s3cret&user=u", "postgresql:///db?host=/run&user=u"),
        ("postgresql:///db?%70assword=s3cret", "postgresql:///db"),
        (
            "postgresql+psycopg://u:s3cret@h/db?sslpassword=s3cret&passfile=/p",
            "postgresql+psycopg://u@h/db?passfile=/p",
        ),
        ("postgresql://h/db?application_name=a@b", "postgresql://h/db?application_name=a@b"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        # What is not quite right must not leak either.
        ("postgresql://u:s3cret@s3cret@h/db", "postgresql://u@h/db"),
    ],
)
def test_an_address_is_written_down_without_its_password(address: str, kept: str) -> None:
    """PG-17, PG-18"""
    assert without_secret(address) == kept


def test_a_password_is_never_written_or_said(project: Path, pg_url: str) -> None:
    """PG-18"""
    # The server of the tests asks for no password, so any will do.
    secret = "p%40s%3As%2Fw%254%20%23%3F"
    address = pg_url.replace("?", f"?password={secret}&", 1) if "?" in pg_url else f"{pg_url}?password={secret}"
    running = start(project, "init", "--db", address)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, ""), err
    assert any("passfile" in warning for warning in json.loads(out)["warnings"])
    for said in (out, err, *map(bytes.decode, tree(project).values())):
        assert secret not in said and "p@s:s/w" not in said
    run(project, "task", "dispatch", "--title", "t", "--role", "worker")


def test_an_address_of_another_kind_is_refused_without_showing_it(project: Path) -> None:
    """PG-18"""
    said = refused(project, "init", "--db", "mysql://u:s3cret@h/db")
    assert "s3cret" not in json.dumps(said)
    assert list(project.iterdir()) == []


# --- files of ours ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", ["CLAUDE.md", ".claude/agents/{}.md", ".claude/skills/coordinate-{}/SKILL.md"]),
        ("codex", ["AGENTS.md", ".agents/skills/coordinate-{}/SKILL.md"]),
        ("generic", ["AGENTS.md", ".agents/{}.md", ".agents/skills/coordinate-{}/SKILL.md"]),
    ],
)
def test_each_harness_gets_its_files_where_it_looks_for_them(project: Path, name: str, expected: list[str]) -> None:
    set_up(project, name)
    names = {each: harness.SKILLS if each.endswith("SKILL.md") else harness.ROLES for each in expected}
    wanted = {each.format(name) for each in expected for name in names[each]}
    settings = {".claude/settings.json"} if name == "claude" else set()
    assert set(tree(project)) == wanted | settings | {".coordinate/.gitignore"}
    for path, content in tree(project).items():
        if path.endswith("SKILL.md"):
            head = content.decode().split("---\n")[1]
            assert f"name: {Path(path).parent.name}\n" in head
            assert re.search(r"^metadata:\n  made-by: coordinate [0-9a-f]{16}\n", head, re.MULTILINE)
    assert not re.search(rb"(?i)\b(gpt|opus|sonnet|haiku|model:)", b"".join(tree(project).values()))


def test_a_file_of_ours_is_updated_while_nobody_edited_it(project: Path) -> None:
    set_up(project)
    skill = project / ".claude/skills/coordinate-worker/SKILL.md"
    now = skill.read_bytes()
    skill.write_text(files.marked("---\nname: coordinate-worker\ndescription: old\n---\nOld text.\n"))
    skill.chmod(0o640)
    made = set_up(project)
    assert made.updated == (".claude/skills/coordinate-worker/SKILL.md",)
    assert skill.read_bytes() == now
    assert stat.S_IMODE(skill.stat().st_mode) == 0o640


@pytest.mark.parametrize("edit", ["added", "mark taken out", "description changed"])
def test_an_edited_file_of_ours_is_kept(project: Path, edit: str) -> None:
    set_up(project)
    skill = project / ".claude/skills/coordinate-worker/SKILL.md"
    text = files.marked("---\nname: coordinate-worker\ndescription: old\n---\nOld text.\n")
    if edit == "added":
        text += "My own rule.\n"
    elif edit == "mark taken out":
        text = re.sub("metadata:\n.*\n", "", text)
    else:
        text = text.replace("old", "mine")
    skill.write_text(text)
    made = set_up(project)
    (left,) = [each for each in made.left_alone if each.why != "up to date"]
    assert left.path == ".claude/skills/coordinate-worker/SKILL.md"
    assert ("not made by" if edit == "mark taken out" else "edited") in left.why
    assert skill.read_text() == text


def test_a_file_of_ours_with_other_line_ends_is_not_an_edited_one(project: Path) -> None:
    set_up(project)
    skill = project / ".claude/skills/coordinate-worker/SKILL.md"
    skill.write_bytes(skill.read_bytes().replace(b"\n", b"\r\n"))
    assert {each.why for each in set_up(project).left_alone} == {"up to date"}


def test_a_file_of_the_users_is_never_overwritten(project: Path) -> None:
    mine = {
        ".claude/agents/reviewer.md": b"---\nname: reviewer\n---\nMy reviewer.",
        ".claude/skills/coordinate-worker/SKILL.md": b"\xff\xfe not even text",
        ".coordinate/.gitignore": b"board.db\n",
    }
    for name, content in mine.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(content)
    made = set_up(project)
    assert {name: tree(project)[name] for name in mine} == mine
    assert {each.path for each in made.left_alone} == set(mine)


# --- the block --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harness_name", ["claude", "codex", "generic"])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"# Mine\n",
        b"# Mine\n\n",
        b"no newline at the end",
        b"# Mine\r\n\r\nline\r\n",
        b"# Mine\r\nno newline",
        b"\xef\xbb\xbf# With a byte order mark\n",
        b"latin-1: \xe9\n",
        b"old Mac\rline ends\r",
        b"`<!-- coordinate:begin -->` is a mark, in the middle of a line\n",
    ],
)
def test_what_the_user_wrote_stays_byte_for_byte(project: Path, harness_name: str, before: bytes) -> None:
    path = project / harness.HARNESSES[harness_name].block
    path.write_bytes(before)
    made = set_up(project, harness_name)
    assert path.name in made.updated
    once = path.read_bytes()
    assert once.startswith(before)
    assert len(BLOCK.findall(once[len(before) :])) == 1
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    ours = once[len(before) :]
    assert ours.count(b"\n") == ours.count(newline)
    set_up(project, harness_name)
    assert path.read_bytes() == once


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("after", [b"", b" \n\n# More of mine", b"\n# More\n\n\n"])
def test_an_old_block_is_replaced_between_its_marks(project: Path, newline: bytes, after: bytes) -> None:
    head, tail = b"# Mine \t\n\n".replace(b"\n", newline), after.replace(b"\n", newline)
    old = newline.join((b"<!-- coordinate:begin -->", b"old words", b"<!-- coordinate:end -->"))
    path = project / "CLAUDE.md"
    path.write_bytes(head + old + tail)
    assert "CLAUDE.md" in set_up(project).updated
    now = path.read_bytes()
    (block,) = BLOCK.findall(now)
    assert now == head + block + tail
    assert b"old words" not in now
    assert block.count(b"\n") == block.count(newline)
    assert set_up(project).updated == ()
    assert path.read_bytes() == now


@pytest.mark.parametrize(
    "content",
    [
        b"<!-- coordinate:begin -->\nwords of mine\n",
        b"<!-- coordinate:end -->\nwords\n",
        b"<!-- coordinate:end -->\n<!-- coordinate:begin -->\n",
        b"<!-- coordinate:begin -->\n<!-- coordinate:begin -->\n<!-- coordinate:end -->\n",
        b"<!-- coordinate:begin -->\n<!-- coordinate:end -->\n<!-- coordinate:end -->\n",
        b"<!-- coordinate:begin -->\n<!-- coordinate:end -->\n" * 2,
        "UTF-16".encode("utf-16"),
        b"with a \0 in it",
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_and_nothing_is_made(project: Path, content: bytes) -> None:
    (project / "CLAUDE.md").write_bytes(content)
    said = refused(project, "init", "--harness", "claude")
    assert said["error"].startswith("CLAUDE.md ")
    assert said["code"] == "invalid_input"
    assert said["hint"]
    assert {path.name: path.read_bytes() for path in project.iterdir()} == {"CLAUDE.md": content}


# --- links, permissions, other things in the way ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    ["CLAUDE.md", ".claude", ".claude/skills", ".claude/agents/worker.md", ".coordinate", ".coordinate/.gitignore"],
)
@pytest.mark.parametrize("target", ["folder", "file", "nothing", "itself"])
def test_no_link_is_followed_out_of_the_folder(project: Path, tmp_path: Path, link: str, target: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    (outside / "folder").mkdir()
    path = project / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path if target == "itself" else outside / target)
    before = sorted(str(each) for each in tmp_path.rglob("*"))
    said = refused(project, "init", "--harness", "claude")
    assert said["code"] == "permission_denied"
    assert "link" in said["error"]
    assert sorted(str(each) for each in tmp_path.rglob("*")) == before
    assert (outside / "file").read_text() == "precious"


def test_a_link_within_the_folder_stays_one_and_its_file_gets_the_block(project: Path) -> None:
    (project / "AGENTS.md").write_text("Mine.\n")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    set_up(project, "claude")
    set_up(project, "codex")
    assert (project / "CLAUDE.md").readlink() == Path("AGENTS.md")
    assert (project / "AGENTS.md").read_bytes().count(files.BEGIN) == 1


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/skills/coordinate-worker/SKILL.md"])
def test_a_folder_in_a_files_place_is_refused(project: Path, name: str) -> None:
    (project / name).mkdir(parents=True)
    assert "is no file" in refused(project, "init", "--harness", "claude")["error"]
    assert not (project / ".coordinate").exists()


@pytest.mark.parametrize("name", [".claude", ".coordinate", ".claude/skills"])
def test_a_file_in_a_folders_place_is_refused(project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("mine")
    assert "is no folder" in refused(project, "init", "--harness", "claude")["error"]
    assert (project / name).read_text() == "mine"


@pytest.fixture
def as_somebody() -> Iterator[Path]:
    """A project of an ordinary user, in that user's name: as root, permissions would refuse nothing."""
    home = Path(tempfile.mkdtemp(prefix="coordinate-"))
    root = os.geteuid() == 0
    if root:
        os.chown(home, 65534, 65534)
    with _in_the_name_of(65534 if root else None):
        yield home
    for path in (home, *home.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(home)


@contextmanager
def _in_the_name_of(uid: int | None) -> Iterator[None]:
    if uid is not None:
        os.seteuid(uid)
    try:
        yield
    finally:
        if uid is not None:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("CLAUDE.md", 0o444), (".", 0o555), (".claude", 0o555), (".claude/skills", 0o555), (".coordinate", 0o500)],
)
def test_what_may_not_be_written_is_refused_before_anything_is_made(as_somebody: Path, name: str, mode: int) -> None:
    (as_somebody / ".claude/skills").mkdir(parents=True)
    (as_somebody / ".coordinate").mkdir()
    (as_somebody / "CLAUDE.md").write_text("mine")
    (as_somebody / name).chmod(mode)
    before = sorted(as_somebody.rglob("*"))
    with pytest.raises(coordinate.errors.PermissionDenied):
        set_up(as_somebody)
    assert sorted(as_somebody.rglob("*")) == before
    assert (as_somebody / "CLAUDE.md").read_text() == "mine"


def test_a_file_keeps_its_owner_and_permissions(project: Path) -> None:
    path = project / "CLAUDE.md"
    path.write_text("mine")
    path.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    before = path.stat()
    set_up(project)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_write_that_fails_leaves_the_file_as_it_was(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(project, None)
    (project / "CLAUDE.md").write_text("mine")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(coordinate.errors.PermissionDenied, match="No space left"):
        set_up(project)
    assert (project / "CLAUDE.md").read_text() == "mine"
    assert sorted(path.name for path in project.iterdir()) == [".coordinate", "CLAUDE.md"]


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_dispatched_once(project: Path) -> None:
    (project / "plan.md").write_text(PLAN)
    first = run(project, "init", "--plan", "plan.md")["plan"]
    assert first == {"tasks": ["TASK-1", "TASK-2", "TASK-3", "TASK-4"], "dispatched": 4, "already": 0}
    assert run(project, "init", "--plan", "plan.md")["plan"] == {**first, "dispatched": 0, "already": 4}
    with coordinate.connect(project / ".coordinate/board.db") as board:
        assert board.stats().total_tasks == 4
        assert board.view(task="TASK-2").task.depends_on == ("TASK-1",)


def test_a_plan_that_grew_brings_only_what_is_new(project: Path, tmp_path: Path) -> None:
    plan = project / "plan.md"
    plan.write_text(PLAN)
    set_up(project, None, plan=plan)
    plan.write_text("## [p1] [after:index] Tell the users\n" + PLAN.replace("[p10]", "[p20]") + "## Measure\n")
    made = set_up(project, None, plan=plan).plan
    assert made is not None
    assert (made.dispatched, made.already) == (2, 4)
    other = tmp_path / "other.md"
    other.write_text("## Measure\n")
    made = set_up(project, None, plan=other).plan
    assert made is not None and made.dispatched == 1
    with coordinate.connect(project / ".coordinate/board.db") as board:
        (new,) = [task for task in board.list_tasks().tasks if task.title == "Tell the users"]
        assert new.depends_on == ("TASK-1",)
        assert board.view(task="TASK-1").task.priority == 10


def test_a_task_that_gets_a_namesake_is_not_dispatched_again(project: Path) -> None:
    """Its title was its key while it was alone, and is no key of two."""
    plan = project / "plan.md"
    counts = []
    for text in ("## Measure it\n", "## Measure it\n## Measure it\n", "## Other\n## [p5] Measure it\n"):
        plan.write_text(text)
        made = set_up(project, None, plan=plan).plan
        assert made is not None
        counts.append((made.dispatched, made.already))
    assert counts == [(1, 0), (1, 1), (1, 1)]


def test_a_plans_own_dedup_key_counts(project: Path) -> None:
    (project / "plan.json").write_text('[{"title": "one", "dedup_key": "mine"}, {"title": "two"}]')
    set_up(project, None, plan=project / "plan.json")
    with coordinate.connect(project / ".coordinate/board.db", agent="a") as board:
        assert board.dispatch(title="other words", role="worker", dedup_key="mine").already


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no task in it",
        b"## [after:nobody] Waits\n",
        b"\xff\xfe",
        b"## x\n" + b"y" * (1 << 20),
    ],
)
def test_a_plan_that_is_not_right_is_refused_before_anything_is_made(project: Path, content: bytes) -> None:
    (project / "plan.md").write_bytes(content)
    assert refused(project, "init", "--plan", "plan.md")["code"] == "invalid_input"
    assert [path.name for path in project.iterdir()] == ["plan.md"]
    refused(project, "init", "--plan", "nowhere.md")


@pytest.mark.parametrize(
    ("db", "plan", "agent", "error"),
    [
        ("postgresql://127.0.0.1:1/x", None, "", Unreachable),
        ("junk.db", None, "", NotABoard),
        (f"new/{'n' * 300}", None, "", InvalidInput),
        ("new/board.db", "## [after:TASK-4] x\n", "", NotFound),
        (None, "## [after:TASK-4] x\n", "", NotFound),
        (None, "## x\n", "system", InvalidInput),
        (None, "## [scope:../other] Out of the project\n", "", InvalidInput),
        (None, '[{"title": "a", "dedup_key": "k"}, {"title": "b", "dedup_key": "k"}]', "", InvalidInput),
    ],
)
def test_a_refusal_leaves_everything_as_it_was(
    project: Path, db: str | None, plan: str | None, agent: str, error: type[CoordinateError]
) -> None:
    (project / "junk.db").write_text("Dear diary" * 1000)
    (project / "plan.md").write_text(plan or "")
    named = db if db is None or "://" in db else str(project / db)
    with pytest.raises(error):
        set_up(project, db=named, plan=plan and project / "plan.md", agent=agent)
    assert sorted(path.name for path in project.rglob("*")) == ["junk.db", "plan.md"]


def test_a_plan_that_the_board_refuses_leaves_no_files(project: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    coordinate.connect(board, create=True).close()
    (project / "plan.md").write_text("## [after:TASK-4] x\n")
    with pytest.raises(NotFound):
        set_up(project, db=str(board), plan=project / "plan.md")
    assert [path.name for path in project.rglob("*")] == ["plan.md"]


def test_hooks_of_the_folder_run_for_a_dispatched_plan(project: Path) -> None:
    set_up(project, None)
    hook = project / ".coordinate/hooks/task-created"
    hook.write_text("#!/bin/sh\ncat >> ../seen\n")
    hook.chmod(0o700)
    (project / "plan.md").write_text(PLAN)
    run(project, "init", "--plan", "plan.md")
    seen = [json.loads(line) for line in (project.parent / "seen").read_text().splitlines()]
    assert [each["ref"] for each in seen] == ["TASK-1", "TASK-2", "TASK-3", "TASK-4"]


@pytest.mark.parametrize("before", ["", "mine\n"])
def test_what_somebody_writes_while_init_is_at_work_is_kept(project: Path, before: str) -> None:
    """As long as a plan is dispatched, by a hook of it here, or a locked board is waited for."""
    block, plan = project / "CLAUDE.md", project / "plan.md"
    set_up(project, None)
    hook = project / ".coordinate/hooks/task-created"
    hook.write_text(f"#!/bin/sh\necho 'written meanwhile' >> {block}\n")
    hook.chmod(0o700)
    plan.write_text("## Begin\n")
    if before:
        block.write_text(before)
    with pytest.raises(InvalidInput, match=r"CLAUDE\.md was changed"):
        set_up(project, plan=plan)
    assert block.read_text() == f"{before}written meanwhile\n"
    again = set_up(project, plan=plan).plan
    assert again is not None and again.already == 1
    assert block.read_text().startswith(f"{before}written meanwhile\n\n<!-- coordinate")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [("--harness", "cursor"), ("--harness", ""), ("extra",), ("--harness",)])
def test_bad_usage_makes_nothing(project: Path, args: tuple[str, ...]) -> None:
    assert refused(project, "init", *args)["code"] == "usage"
    assert list(project.iterdir()) == []


def test_init_takes_the_options_that_every_command_takes(project: Path, tmp_path: Path) -> None:
    made = run(project, "--db", str(tmp_path / "b.db"), "init", "--json")
    assert made["board"]["named_by"] == "--db"
    running = start(project, "init", "--format", "table")
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "BOARD" in out


def test_only_a_command_that_runs_ours_counts_and_numbers_are_kept(tmp_path: Path) -> None:
    line = "coordinate harness stop"

    def added(command: str) -> bool:
        told = {"big": 12345678901234567890, "small": 0.1, "hooks": {"Stop": [{"hooks": [{"command": command}]}]}}
        (tmp_path / "s.json").write_text(json.dumps(told))
        change = files.hooks(tmp_path, "s.json", {"Stop": line})
        assert change.content is None or json.loads(change.content)["big"] == told["big"]
        return change.content is not None

    for command in (line, f"{line} || true", f"cd x;{line}>&2", f"A=1 /opt/bin/{line} && true", f"uv run {line}"):
        assert not added(command), command
    for command in (f"echo '{line}'", f'log "see {line}"', f"true # {line}", f"{line}-watch", f"my{line}", "true"):
        assert added(command), command
    for number in ("1e400", "0.12345678901234567890123", "NaN"):
        (tmp_path / "s.json").write_text(f'{{"n": {number}}}')
        with pytest.raises(InvalidInput, match="cannot be kept"):
            files.hooks(tmp_path, "s.json", {"Stop": line})
