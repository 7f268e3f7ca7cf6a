"""Output that arrives: any locale (IF-06), closed pipes, tables for people, and no secret anywhere (PG-18)."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.clock import age
from tests.doors.command import COORDINATE, Answer, Command

HARD_TITLE = "✓ 🚀 Привет e\u0301 中文"
LOCALES = [
    {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"},
]


# --- locales ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", LOCALES, ids=["ascii", "C", "cp1252"])
def test_a_locale_that_cannot_print_changes_neither_the_work_nor_its_exit(
    here: Command, locale: dict[str, str]
) -> None:
    """IF-06: create, list and complete, as JSON and as a table; a refusal that names the text; help."""
    made = here("task", "dispatch", "--title", HARD_TITLE, "--role", "w", **locale).json
    assert made["title"] == HARD_TITLE
    here("task", "claim", "TASK-1", "--agent", "Жанна", **locale)
    for arguments in (("task", "list"), ("task", "view", "TASK-1"), ("--help",), ("status",)):
        shown = here(*arguments, "--format", "table", **locale)
        assert (shown.status, shown.err) == (0, ""), arguments
    refused = here("task", "complete", "TASK-1@1", "--agent", "ß", **locale)
    assert (refused.status, refused.error["holder"]) == (3, "Жанна")
    done = here("task", "complete", "TASK-1@1", "--agent", "Жанна", "--result", "готово", **locale)
    assert done.out.isascii()
    assert here("task", "view", "TASK-1").json["task"]["result"] == "готово"


def test_the_name_of_a_file_is_told_in_utf_8_whatever_the_locale(here: Command, tmp_path: Path) -> None:
    place = tmp_path / "Prüfung" / "✓.db"
    where = ("db", "where", "--db", str(place))
    absent = ("status", "--db", str(place))
    for locale in LOCALES:
        assert here(*where, **locale).json["database"] == str(place)
        refused = here(*absent, **locale).error
        assert refused["path"] == str(place)
        assert str(place) in refused["error"]


def test_bytes_that_are_no_text_are_refused_on_one_line(here: Command) -> None:
    command: list[bytes | str] = [*COORDINATE, "task", "dispatch", "--role", "w", "--title", b"\xff\xfe"]
    done = subprocess.run(command, capture_output=True, env=here.environment, check=False)
    assert Answer(done.returncode, done.stdout.decode(), done.stderr.decode()).error["code"] == "invalid_input"


# --- pipes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("task", "search"), ("export",), ("--help",)])
def test_a_reader_that_goes_away_ends_the_command_quietly(here: Command, arguments: tuple[str, ...]) -> None:
    here("task", "dispatch", "--title", "t", "--role", "w")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COORDINATE, *arguments], stdout=writer, stderr=subprocess.PIPE, env=here.environment, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("task", "dispatch", "--title", "t", "--role", "w"), 1, "output_lost"),
        (("--help",), 1, "output_lost"),
        (("task", "view", "TASK-9"), 2, "not_found"),
        (("lock", "run", "l", "--agent", "a", "--", "true"), 0, ""),
    ],
)
def test_an_answer_to_a_closed_stdout_is_lost_as_on_a_full_disk(
    here: Command, arguments: tuple[str, ...], status: int, code: str
) -> None:
    done = here.started(*arguments, within="exec >&-")
    _, said = done.communicate()
    assert done.returncode == status
    assert [json.loads(line)["code"] for line in said.splitlines()] == [code] * bool(code)
    assert here("task", "stats").json["total_tasks"] == (1 if "dispatch" in arguments else 0)


@pytest.mark.parametrize("within", ["exec 2>/dev/full", "exec 2>&-"])
def test_words_that_nobody_can_hear_change_no_exit_status(here: Command, within: str) -> None:
    """A refusal's words, and the warning that there are more tasks than were asked for."""
    for title in "ab":
        here("task", "dispatch", "--title", title, "--role", "w")
    for arguments, status in [
        (("task", "complete", "TASK-1@9", "--agent", "a"), 4),
        (("task", "bogus"), 2),
        (("task", "search", "--limit", "1"), 0),
    ]:
        done = here.started(*arguments, within=within)
        out, _ = done.communicate()
        assert (done.returncode, out == "") == (status, status != 0), arguments


@pytest.mark.parametrize(
    "arguments", [("task", "dispatch", "--title", "t", "--role", "w"), ("task", "stats"), ("--help",)]
)
def test_a_full_disk_under_stdout_is_told_on_one_line_and_undoes_nothing(
    here: Command, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COORDINATE, *arguments], stdout=full, stderr=subprocess.PIPE, env=here.environment, check=False
        )
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    told = json.loads(line)
    assert told["code"] == "output_lost"
    assert "was made" in told["hint"]
    assert "report" not in told["hint"]
    assert here("task", "stats").json["total_tasks"] == (1 if "dispatch" in arguments else 0)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_in_a_pipe_is_plain_aligned_and_cuts_nothing(here: Command) -> None:
    title = "a long title " * 20
    here("task", "dispatch", "--title", title, "--role", "worker")
    here("task", "dispatch", "--title", "\N{ESCAPE}[31m".replace("\N{ESCAPE}", "") + "red", "--role", "worker")
    head, first, second = here("task", "list", "--format", "table").out.split("TASKS\n")[1].splitlines()
    assert head.split() == ["ID", "STATUS", "ROLE", "TITLE"]
    assert title.strip() in first
    assert first.index("a long") == second.index("[31mred") == head.index("TITLE")
    assert "\x1b" not in head + first + second
    assert here("task", "mine", "--agent", "a", "--format", "table").out == "(nothing)\n"


def test_a_table_says_what_a_task_waits_for_and_when_its_lease_ends(here: Command) -> None:
    for title in ("held", "past", "waits", "ready"):
        here("task", "dispatch", "--title", title, "--role", "w")
    here("task", "depend", "add", "TASK-3", "--on", "TASK-1", "--agent", "a")
    here("task", "dispatch", "--title", "later", "--role", "w", "--not-before", "2090-01-01T00:00:00Z")
    here("task", "claim", "TASK-2", "--agent", "b")
    age(here.url, 7_200)
    held = here("task", "claim", "TASK-1", "--agent", "a", "--lease", "3s").json
    shown = here("task", "search", "--format", "table").out
    lines = {line.split()[-1]: line for line in shown.splitlines()}
    assert held["lease_until"][11:16] + "Z" in lines["held"]
    assert "lease past" in lines["past"]
    assert "  TASK-1  " in lines["waits"]
    assert "until 2090-01-01T00:00Z" in lines["later"] or "until 2089-12-31T22:00Z" in lines["later"]
    assert lines["ready"].split() == ["TASK-4", "TODO", "w", "ready"]
    mine = here("task", "mine", "--agent", "a", "--format", "table").out
    assert held["lease_until"][11:16] + "Z" in mine


def test_the_status_for_people_says_who_holds_what_and_leaves_empty_days_out(here: Command) -> None:
    here("task", "dispatch", "--title", "the parser", "--role", "w")
    here("task", "claim", "TASK-1", "--agent", "alice")
    shown = here("status", "--format", "table").out
    (held,) = shown.split("HELD\n")[1].splitlines()[1:]
    assert {"TASK-1", "alice"} <= set(held.split())
    assert len(shown.split("BURNDOWN\n")[1].split("\n\n")[0].splitlines()) == 2
    assert len(here("status").json["burndown"]) == 14


def test_nothing_is_said_in_the_words_of_the_question(here: Command) -> None:
    assert here("plan", "lint", "--format", "table").out == "no issues\n"
    assert here("db", "check", "--format", "table").out == "no differences\n"
    assert here("task", "search", "--format", "table").out == "(nothing)\n"


@pytest.mark.parametrize("arguments", [("export",), ("events", "tail"), ("task", "list", "--ndjson")])
def test_lines_for_programs_are_no_table(here: Command, arguments: tuple[str, ...]) -> None:
    here("task", "dispatch", "--title", "t", "--role", "w")
    assert here(*arguments, "--format", "table").error["code"] == "usage"


def test_text_of_agents_cannot_steer_the_terminal(here: Command) -> None:
    here("task", "dispatch", "--title", "t", "--role", "w", "--body", "\x1b]0;owned\x07\r\nnext")
    shown = here("task", "view", "TASK-1", "--format", "table").out
    assert "\x1b" not in shown
    assert "\x07" not in shown


def _on_a_terminal(here: Command, *arguments: str, **environment: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COORDINATE, *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**here.environment, "COLUMNS": "80", **environment},
    ) as child:
        os.close(theirs)
        said = b"".join(_until_hung_up(ours))
    assert child.returncode == 0
    return said.decode().replace("\r\n", "\n")


def _until_hung_up(terminal: int) -> Iterator[bytes]:
    try:
        while chunk := os.read(terminal, 65536):
            yield chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(terminal)


def test_on_a_terminal_json_is_indented_and_tables_are_coloured_and_fit(here: Command) -> None:
    here("task", "dispatch", "--title", "word " * 60, "--role", "worker")
    here("task", "claim", "TASK-1", "--agent", "a")
    shown = _on_a_terminal(here, "task", "stats")
    assert '\n  "by_status"' in shown
    assert json.loads(shown)["total_tasks"] == 1
    table = ("task", "search", "--format", "table")
    assert "\x1b[36mIN_PROGRESS\x1b[0m" in _on_a_terminal(here, *table, TERM="xterm")
    assert "\x1b" not in _on_a_terminal(here, *table, TERM="dumb")
    plain = _on_a_terminal(here, *table, NO_COLOR="1")
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "..." in plain


# --- secrets and paths ------------------------------------------------------------------------------------------------

SECRET = "s3cr3t-Pa55"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/x",
        f"postgresql://u:{SECRET}@127.0.0.1:notaport/x",
        f"postgres://127.0.0.1:1/x?user=u&password={SECRET}",
        f"postgresql://u:a@{SECRET}@127.0.0.1:1/x",
        f"postgresql://u:a b'\"{SECRET}@127.0.0.1:1/x",
        f"postgresql+asyncpg://u:{SECRET}@127.0.0.1:1/x",
        f"mysql://u:{SECRET}@127.0.0.1:1/x",
        f"host=127.0.0.1 port=1 user=u password={SECRET}",
    ],
)
def test_no_password_is_ever_printed(tmp_path: Path, address: str) -> None:
    """PG-18: in the flag, in the variable, in the wrong place, with a traceback asked for."""
    call = Command(address, tmp_path, COORDINATE_DEBUG="1")
    lines = (
        ("status",),
        ("task", "claim-next", "--agent", "a", "--role", "w"),
        ("db", "where"),
        ("db", "current"),
        ("db", "upgrade"),
        ("status", "--db", address),
        ("status", address),
        (address,),
        ("--dbb", address, "status"),
        (f"--dbb={address}", "status"),
        ("status", "--format", address),
        ("task", "list", "--limit", address),
    )
    # Side by side, since each gives an address that does not answer some seconds.
    with ThreadPoolExecutor(len(lines)) as pool:
        answers = dict(zip(lines, pool.map(lambda arguments: call(*arguments), lines), strict=True))
    for arguments, answer in answers.items():
        assert SECRET not in answer.out + answer.err, arguments
        assert answer.status in (2, 5) or arguments == ("db", "where"), (arguments, answer)
    assert [found.name for found in tmp_path.rglob("*") if SECRET in found.name] == []


@pytest.mark.parametrize("name", ["sp ace", "a#b", "a?b", "a%20b", "a%2Fb", "é🚀", "dot.", "-leading"])
def test_a_path_is_a_path(tmp_path: Path, name: str) -> None:
    """SQ-13: exactly the named file is used, by flag and by variable, and no stray file appears."""
    board = f"./{name}/{name}"
    (tmp_path / name).mkdir()
    call = Command(board, tmp_path)
    assert call("db", "upgrade", f"--db={board}").json["after"]
    assert call("task", "dispatch", "--title", "t", "--role", "w").json["id"] == "TASK-1"
    assert call("task", "list", "--db", str(tmp_path / name / name), COORDINATE_DB="").json["tasks"]
    assert call("db", "check").json == {"differences": []}
    assert call("db", "current", **LOCALES[1]).status == 0
    assert call("status", f"--db={board}", **LOCALES[1]).json["total"] == 1
    assert sorted(str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*")) == [name, f"{name}/{name}"]
