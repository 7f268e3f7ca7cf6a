"""Which path is meant by what is typed: in a git checkout, its subfolders and worktrees, and without any of them."""

from __future__ import annotations

import json
import ntpath
import os
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import pytest

from coordinate.cli import places
from tests.doors.command import Answer, Command
from tests.doors.repository import Repository


def claimed(answer: Answer) -> list[str]:
    return [lease["resource"] for lease in answer.json["leases"]]


def at(repository: Repository, folder: str) -> Command:
    (repository.main / folder).mkdir(parents=True, exist_ok=True)
    return repository.call("alice", at=repository.main / folder)


def test_paths_count_from_the_callers_folder_as_with_git_and_for_the_guard(repository: Repository) -> None:
    call = at(repository, "src/api")
    typed = ("x.py", "../web/**/*.ts", "./a//b/", "../../README", "*.py", "[ab].py", str(repository.main / "docs/*.md"))
    meant = ["src/api/x.py", "src/web/**/*.ts", "src/api/a/b", "README", "src/api/*.py", "src/api/[ab].py", "docs/*.md"]
    assert claimed(call("lease", "claim", *typed)) == meant
    # What is claimed is what the guard asks for.
    for name in ("x.py", "../web/deep/a.ts", "new.py", str(repository.linked / "docs" / "a.md")):
        assert repository.call("bob", at=repository.main / "src" / "api")("guard", "check", name).status == 3, name
    assert repository.call("bob")("lease", "check", "x.py").json["granted"]
    refused = repository.call("bob", at=repository.main / "src" / "api")("lease", "check", "x.py")
    assert (refused.status, json.loads(refused.out)["conflicts"][0]["pattern"]) == (3, "src/api/x.py")
    assert claimed(at(repository, "lib")("lease", "claim", ".")) == ["lib"]


def test_release_by_path_means_the_same_path_as_claim(repository: Repository) -> None:
    session = repository.call("carol")("agent", "register", "--id-only").out.strip()
    call = at(repository, "src")
    call.environment |= {"COORDINATE_SESSION": session, "COORDINATE_AGENT": ""}
    assert claimed(call("lease", "claim", "a", "b")) == ["src/a", "src/b"]
    assert call("lease", "release", "../a").json == []
    assert [lease["resource"] for lease in call("lease", "release", "a").json] == ["src/a"]
    assert [lease["resource"] for lease in call("lease", "release", "--all").json] == ["src/b"]


def test_a_worktree_of_the_project_names_the_same_paths_and_what_lies_outside_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    call = at(repository, "src")
    assert claimed(call("lease", "claim", str(repository.linked / "a"), "../../linked/b")) == ["a", "b"]
    (tmp_path / "alias").symlink_to(repository.main)
    assert claimed(call("lease", "claim", str(tmp_path / "alias" / "c"))) == ["c"]
    (tmp_path / "other").mkdir()
    repository.git("init", "-q", at=tmp_path / "other")
    for outside in ("/", "/etc/hosts", "../../x", str(tmp_path / "other" / "x"), "../../../../../../../../../../x"):
        for words in (("claim",), ("check",), ("release",)):
            refused = call("lease", *words, outside)
            assert (refused.status, refused.error["code"]) == (2, "invalid_input"), outside
            assert "outside" in refused.error["error"] and "\n" not in refused.error["error"], outside


def test_a_folder_with_an_odd_name_is_no_glob_and_a_repository_in_another_is_part_of_it(repository: Repository) -> None:
    assert claimed(at(repository, "app/[slug]")("lease", "claim", "../x.ts")) == ["app/x.ts"]
    assert claimed(at(repository, "a*{b,c}")("lease", "claim", "x.ts")) == ["a??b,c?/x.ts"]
    nested = repository.main / "vendor" / "lib"
    nested.mkdir(parents=True)
    repository.git("init", "-q", at=nested)
    assert claimed(repository.call("alice")("lease", "claim", "vendor/lib/z.c")) == ["vendor/lib/z.c"]
    for refused in (at(repository, "src")("lease", "claim", "{a,b}"), at(repository, "src")("lease", "claim", "")):
        assert (refused.status, refused.error["code"]) == (2, "invalid_input")


def test_without_git_the_folder_of_the_board_is_the_root_and_without_either_paths_stay_as_they_are(
    tmp_path: Path, sqlite_template: Path
) -> None:
    call = Command(str(sqlite_template), tmp_path, COORDINATE_AGENT="alice")
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    call.environment["COORDINATE_DB"] = str(board)
    (tmp_path / "a").mkdir()
    call.folder = tmp_path / "a"
    assert claimed(call("lease", "claim", "x", "y/../z")) == ["x", "z"]
    assert call("lease", "claim", "/x").error["code"] == "invalid_input"
    os.mkdir(tmp_path / ".coordinate", 0o700)
    assert claimed(call("lease", "claim", "w", "../b", str(tmp_path / "c"))) == ["a/w", "b", "c"]


def test_where_backslashes_separate_a_path_is_the_same_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "os", SimpleNamespace(path=ntpath))
    monkeypatch.setattr(places, "Path", PureWindowsPath)
    root = PureWindowsPath(r"C:\proj")
    typed = {"api\\x.py": "src/api/x.py", r"..\docs\*.md": "docs/*.md", r"C:\proj\lib": "lib", r"c:\proj\a\**": "a/**"}
    for each, meant in typed.items():
        assert places._from_root(each, root / "src", root) == meant  # type: ignore[arg-type]


def test_in_a_folder_that_is_gone_what_is_named_from_the_root_on_is_found(
    tmp_path: Path, sqlite_template: Path
) -> None:
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    call = Command("", tmp_path, COORDINATE_AGENT="alice")
    del call.environment["COORDINATE_DB"]

    def gone(*arguments: str) -> Answer:
        done = call.started(*arguments, within="mkdir gone && cd gone && rmdir ../gone")
        out, err = done.communicate()
        return Answer(done.returncode, out, err)

    for arguments, named in [
        (("status",), ""),
        (("init",), ""),
        (("init", "--db", str(board)), ""),
        (("status", "--db", "none.db"), "none.db"),
        (("db", "backup", "new.db", "--db", str(board)), "new.db"),
        (("db", "restore", "old.db", "--db", str(board)), "old.db"),
        (("db", "move", "--to", "new.db", "--db", str(board)), "new.db"),
        (("guard", "check", "a.py", "--db", str(board)), "a.py"),
    ]:
        refused = gone(*arguments)
        assert (refused.status, refused.error["code"]) == (6, "no_board"), arguments
        assert "the folder that you are in is gone" in refused.error["error"]
        assert named in refused.error["error"]
    assert gone("db", "where", "--db", "postgresql://127.0.0.1:1/x").json["named_by"] == "--db"
    assert gone("task", "mine", "--db", str(board)).json == []
    call.environment["COORDINATE_DB"] = str(board)
    assert claimed(gone("lease", "claim", "a")) == ["a"]


def test_a_scope_that_is_written_down_with_a_task_counts_from_the_root(repository: Repository) -> None:
    call = at(repository, "src")
    call("task", "dispatch", "--title", "t", "--role", "w", "--scope", "docs/*.md")
    call("task", "claim-next", "--role", "w")
    assert [lease["resource"] for lease in call("lease", "list").json] == ["docs/*.md"]
