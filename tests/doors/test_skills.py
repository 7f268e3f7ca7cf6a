"""Skills, role files and the block: every command that they show is run, in order, on one fresh board.

A line of an `sh` fence is one command; `export` holds for the rest of its text; `# exit N` at its end is what it must
answer (else 0). A `markdown` fence is the plan.md of the commands behind it. `TASK-1@1` and the like are what the
commands before made true: the manager hands out work, the worker does it, the reviewer judges it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import coordinate
from coordinate import errors, harness

TEXTS = [
    *(f"skills/coordinate-{role}.md" for role in harness.SKILLS),
    *(f"agents/{role}.md" for role in harness.ROLES),
    "block.md",
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command as a text shows it."""

    text: str
    command: str
    status: int


def fences(name: str) -> list[tuple[str, str]]:
    return FENCE.findall((harness.TEXTS / name).read_text("ascii"))


def commands(name: str) -> Iterator[Shown | str]:
    """The commands of a text, and the plans between them."""
    for kind, content in fences(name):
        if kind == "markdown":
            yield content
            continue
        for line in content.splitlines():
            command, _, said = line.partition("  # exit ")
            yield Shown(name, command, int(said or 0))


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `coordinate` is this one, and `make test` passes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    package = Path(coordinate.__file__).parents[1]
    for name, does in (
        ("coordinate", f'PYTHONPATH="{package}" exec "{sys.executable}" -m coordinate "$@"'),
        ("make", "true"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATE_")}
    return {**clean, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def run(command: str, shell: dict[str, str], where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=where,
        env=shell,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_every_command_that_skills_and_role_files_show_does_what_they_say(
    tmp_path: Path, shell: dict[str, str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    assert run("coordinate init", shell, project).returncode == 0
    for name in TEXTS:
        for known in ("COORDINATE_AGENT", "COORDINATE_SESSION"):
            shell.pop(known, None)
        for shown in commands(name):
            if isinstance(shown, str):
                (project / "plan.md").write_text(shown)
            elif shown.command.startswith("export "):
                variable = shown.command.removeprefix("export ").partition("=")[0]
                shell[variable] = run(f'{shown.command} && printf %s "${variable}"', shell, project).stdout
                assert shell[variable], shown
            else:
                done = run(shown.command, shell, project)
                assert done.returncode == shown.status, f"{shown}\n{done.stdout}\n{done.stderr}"
                if not shown.command.startswith(("coordinate skill view", "coordinate run", "coordinate lock run")):
                    json.loads(done.stdout if done.returncode == 0 else done.stderr)
    left = json.loads(run("coordinate task list", shell, project).stdout)["tasks"]
    # The story came to its end: one approved, one rejected, one blocked.
    stands = {task["id"]: task["status"] for task in left}
    assert stands["TASK-1"] == "DONE"
    assert stands["TASK-4"] == "BLOCKED"


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_short_plain_and_teaches_the_rules(name: str) -> None:
    text = (harness.TEXTS / name).read_text("ascii")
    assert len(text.splitlines()) <= 80
    assert max(map(len, text.splitlines())) <= 200
    assert "COORDINATE_AGENT" in text
    assert "other agents" in text and "data" in text and re.search(r"never (an )?instruction|never change", text)
    assert {kind for kind, _ in fences(name)} <= {"sh", "markdown"}
    # No command hides in the text where the test above would not run it.
    assert not re.search(r"^\s+coordinate ", text, re.MULTILINE)
    for line in ("".join(FENCE.split(text)[::3])).splitlines():
        assert not line.startswith("coordinate "), line


@pytest.mark.parametrize("role", harness.SKILLS)
def test_a_skill_shows_handles_and_the_exit_codes_that_its_role_meets(role: str) -> None:
    text = harness.skill(role).text
    assert re.search(r"TASK-\d+@\d+", text)
    listed = text[text.rindex("Exit 0") :].split("\n")[0]
    known = {kind.exit_status for kind in vars(errors).values() if hasattr(kind, "exit_status")} | {0}
    assert {int(each) for each in re.findall(r"\b\d\b", listed)} <= known


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "block.md"])
def test_front_matter_is_what_harnesses_read(name: str) -> None:
    lines = (harness.TEXTS / name).read_text("ascii").splitlines()
    assert lines[0] == "---"
    head = dict(line.split(": ", 1) for line in lines[1 : lines.index("---", 1)])
    assert set(head) == {"name", "description"}
    assert head["name"] == Path(name).stem
    assert 0 < len(head["description"]) <= 1024
    # A plain scalar of YAML: nothing in it that YAML would read otherwise.
    assert not re.search(r": |\s#|^[\[{&*!|>'\"%@`]", head["description"])


def test_skill_list_and_view(tmp_path: Path, shell: dict[str, str]) -> None:
    listed = json.loads(run("coordinate skill list", shell, tmp_path).stdout)
    assert [set(each) for each in listed] == [{"role", "name", "file", "description"}] * len(harness.SKILLS)
    assert [each["role"] for each in listed] == list(harness.SKILLS)
    for each in listed:
        shown = run(f"coordinate skill view {each['name']}", shell, tmp_path)
        assert shown.stdout == harness.skill(each["role"]).text
        assert run(f"coordinate skill view {each['role']}", shell, tmp_path).stdout == shown.stdout
    assert json.loads(run("coordinate skill view worker --json", shell, tmp_path).stdout) == {
        "markdown": harness.skill("worker").text
    }
    assert json.loads(run("coordinate skill list --json", shell, tmp_path).stdout) == listed
    assert list(tmp_path.iterdir()) == [tmp_path / "bin"]  # no board was needed, none was made


@pytest.mark.parametrize("name", ["nobody", "''", "../block", "skills/coordinate-worker.md"])
def test_a_skill_that_does_not_exist_is_refused(tmp_path: Path, shell: dict[str, str], name: str) -> None:
    done = run(f"coordinate skill view {name}", shell, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    refused = json.loads(done.stderr)
    assert refused["code"] == "not_found"
    assert "coordinate-worker" in refused["hint"]


def test_a_skill_can_be_shown_in_any_locale(tmp_path: Path, shell: dict[str, str]) -> None:
    """IF-06"""
    odd = {**shell, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    assert run("coordinate skill view worker", odd, tmp_path).stdout == harness.skill("worker").text
