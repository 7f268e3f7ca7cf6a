"""Guards in a real git repository with a linked worktree: a commit or an edit of what another holds is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clock import age
from tests.doors.command import Answer
from tests.doors.repository import Repository

ODD_NAMES = [
    "with space.py",
    "ümläut/日本.py",
    "a*b.py",
    "[slug]/page.tsx",
    "q?.txt",
    "{a,b}.md",
    "100%_.txt",
    "new\nline",
]


@pytest.fixture
def guarded(repository: Repository) -> Repository:
    """With the hook installed."""
    assert repository.call("alice")("guard", "install").status == 0
    return repository


def held(repository: Repository, *patterns: str, by: str = "bob") -> None:
    assert repository.call(by)("lease", "claim", *patterns).json["granted"]


def later(repository: Repository) -> None:
    """Every lease so far is over."""
    age(str(repository.main / ".coordinate" / "board.db"), 1000)


def session_of(repository: Repository, name: str) -> str:
    return repository.call(name)("agent", "register", "--id-only").out.strip()


def refusal(answer: Answer) -> dict[str, Any]:
    """What a hook said on stderr, as git hands it on."""
    (line,) = answer.err.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


# --- commits ----------------------------------------------------------------------------------------------------------


def test_a_commit_of_what_another_holds_is_refused_with_holder_and_expiry(guarded: Repository) -> None:
    held(guarded, "src/api")
    refused = guarded.commit("src/api/users.py", "docs/a.md")
    assert (refused.status, refused.out) == (1, "")
    told = refusal(refused)
    assert (told["code"], told["holder"], told["until"][-1]) == ("held_by_another", "bob", "Z")
    assert [(each["pattern"], each["held"]) for each in told["conflicts"]] == [("src/api/users.py", "src/api")]
    hook = subprocess.run(
        [".git/hooks/pre-commit"], cwd=guarded.main, env=guarded.environment, capture_output=True, check=False
    )
    assert hook.returncode == 3
    assert guarded.git("commit", "-m", "passed by", "--no-verify").status == 0
    free = guarded.commit("src/other.py")
    assert (free.status, free.err) == (0, "")


def test_a_commit_passes_once_the_lease_is_over(guarded: Repository) -> None:
    held(guarded, "src")
    assert guarded.commit("src/a.py").status == 1
    later(guarded)
    assert guarded.git("commit", "-m", "later").status == 0


@pytest.mark.parametrize("change", ["add", "change", "delete", "rename from", "rename to", "mode"])
def test_each_kind_of_change_is_guarded(guarded: Repository, change: str) -> None:
    guarded.commit("src/old.py", "free.py")
    held(guarded, "src")
    match change:
        case "add":
            guarded.write("src/new.py")
        case "change":
            guarded.write("src/old.py", "other")
        case "delete":
            guarded.git("rm", "-q", "src/old.py")
        case "rename from":
            guarded.git("mv", "src/old.py", "moved.py")
        case "rename to":
            guarded.git("mv", "free.py", "src/moved.py")
        case "mode":
            (guarded.main / "src/old.py").chmod(0o755)
    guarded.git("add", "-A", "--", ":!.coordinate")
    refused = guarded.git("commit", "-m", change)
    assert (refused.status, refusal(refused)["holder"]) == (1, "bob")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_name_is_asked_for_as_it_is_and_never_slips_through(guarded: Repository, name: str) -> None:
    held(guarded, "other", "aXXb.py", "s/page.tsx", "a.md", "100.txt")
    passed = guarded.commit(name)
    assert (passed.status, passed.err) == (0, "")
    later(guarded)
    held(guarded, "**")
    assert guarded.commit(name).status == 1


@pytest.mark.parametrize(
    ("pattern", "name"), [("a[*]b.py", "a*b.py"), ("[slug]", "[slug]/page.tsx"), ("ümläut", "ümläut/日本.py")]
)
def test_an_odd_name_that_another_holds_is_refused(guarded: Repository, pattern: str, name: str) -> None:
    held(guarded, pattern)
    assert guarded.commit(name).status == 1


def test_what_the_committing_session_holds_is_no_conflict(guarded: Repository) -> None:
    session = session_of(guarded, "alice")
    assert guarded.call()("lease", "claim", "src", "--session", session).status == 0
    assert guarded.commit("src/a.py", COORDINATE_SESSION=session).status == 0
    # Nobody knows who commits without it, and another session of hers is another holder.
    refused = guarded.commit("src/b.py", COORDINATE_AGENT="alice")
    assert "$COORDINATE_SESSION" in refusal(refused)["hint"]
    other = session_of(guarded, "alice")
    assert guarded.git("commit", "-m", "again", COORDINATE_SESSION=other).status == 1
    assert guarded.git("commit", "-m", "again", COORDINATE_SESSION=session).status == 0


def test_a_linked_worktree_is_guarded_by_the_same_hook_and_board(guarded: Repository) -> None:
    held(guarded, "src/api")
    refused = guarded.commit("src/api/x.py", at=guarded.linked)
    assert (refused.status, refusal(refused)["holder"]) == (1, "bob")
    assert guarded.commit("src/other.py", at=guarded.linked).status == 1  # the first is staged still
    guarded.git("rm", "-q", "--cached", "src/api/x.py", at=guarded.linked)
    assert guarded.git("commit", "-m", "free", at=guarded.linked).status == 0


@pytest.mark.parametrize("words", [("-a",), ("-o", "src/a.py"), ("-i", "src/a.py")])
def test_a_commit_that_stages_by_itself_is_guarded(guarded: Repository, words: tuple[str, ...]) -> None:
    """Git then names another index than the usual one to the hook."""
    for at in (guarded.main, guarded.linked):
        guarded.commit("src/a.py", "free.py", at=at)
    held(guarded, "src")
    for at in (guarded.main, guarded.linked):
        guarded.write("src/a.py", "changed", at=at)
        assert guarded.git("commit", "-m", "c", *words, at=at).status == 1
    guarded.git("checkout", "-q", "src/a.py")
    guarded.write("free.py", "changed")
    assert guarded.git("commit", "-m", "c", "-a").status == 0


def test_a_commit_from_a_subfolder_is_guarded_by_whole_paths(guarded: Repository) -> None:
    held(guarded, "src")
    guarded.write("src/a.py")
    guarded.git("add", "a.py", at=guarded.main / "src")
    assert guarded.git("commit", "-m", "c", at=guarded.main / "src").status == 1


def test_a_link_that_leads_out_is_a_file_like_others(guarded: Repository) -> None:
    held(guarded, "src")
    (guarded.main / "hosts").symlink_to("/etc/hosts")
    guarded.git("add", "hosts")
    assert guarded.git("commit", "-m", "link").status == 0


def test_a_name_that_is_no_text_and_one_too_long_are_asked_for_by_more(guarded: Repository) -> None:
    os.mkdir(os.fsencode(guarded.main) + b"/src")
    name = b"src/\xff\xfe.bin"
    Path(os.fsdecode(os.fsencode(guarded.main) + b"/" + name)).write_text("x")
    deep = "/".join(["src", *("d" * 200,) * 6, "f"])
    guarded.write(deep)
    guarded.git("add", "src")
    assert guarded.git("commit", "-m", "c").status == 0
    for path in (guarded.main / deep, Path(os.fsdecode(os.fsencode(guarded.main) + b"/" + name))):
        path.write_text("changed")
    held(guarded, "src")
    assert guarded.git("commit", "-am", "c").status == 1


def test_a_file_of_a_submodule_is_guarded_by_the_names_it_has_inside_and_from_outside(repository: Repository) -> None:
    inner = repository.main / "vendor" / "lib"
    inner.mkdir(parents=True)
    repository.git("init", "-q", at=inner)
    repository.write("z.c", at=inner)
    repository.git("add", "z.c", at=inner)
    free, staged = ("guard", "check", "vendor/lib/z.c"), ("guard", "check", "--staged")
    assert repository.call("alice")(*free).json["paths"] == ["z.c", "vendor/lib/z.c"]
    assert repository.call("alice", at=inner)(*staged).status == 0
    held(repository, "vendor")
    assert repository.call("alice")(*free).error["conflicts"][0]["held"] == "vendor"
    assert repository.call("alice", at=inner)(*staged).status == 3


def test_no_setting_hides_a_submodule_that_a_commit_moves(guarded: Repository) -> None:
    moved = ("update-index", "--add", "--cacheinfo")
    guarded.git(*moved, f"160000,{'1' * 40},lib")
    guarded.write(".gitmodules", '[submodule "lib"]\n\tpath = lib\n\turl = ./lib\n\tignore = all\n')
    guarded.git("add", ".gitmodules")
    assert guarded.git("commit", "-m", "lib").status == 0
    held(guarded, "lib")
    guarded.git(*moved, f"160000,{'2' * 40},lib")
    assert guarded.git("commit", "-m", "moved").status == 1


def test_the_first_commit_of_a_repository_is_guarded_too(repository: Repository, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    repository.git("init", "-q", at=fresh)
    assert repository.call(at=fresh)("init").status == 0
    assert repository.call("alice", at=fresh)("guard", "install").status == 0
    assert repository.call("bob", at=fresh)("lease", "claim", "src").status == 0
    assert repository.commit("src/a.py", at=fresh).status == 1
    assert repository.git("rm", "-q", "--cached", "src/a.py", at=fresh).status == 0
    assert repository.commit("free.py", at=fresh).status == 0


# --- when the board cannot be asked -----------------------------------------------------------------------------------


def lose_board(repository: Repository) -> None:
    (repository.main / ".coordinate").rename(repository.main.parent / "gone")


def test_without_a_board_to_ask_a_commit_is_refused(guarded: Repository) -> None:
    lose_board(guarded)
    refused = guarded.commit("a.py")
    assert (refused.status, refusal(refused)["code"]) == (1, "no_board")
    unreachable = guarded.git("commit", "-m", "c", COORDINATE_DB="postgresql://u@127.0.0.1:1/none?connect_timeout=1")
    assert (unreachable.status, refusal(unreachable)["code"]) == (1, "unreachable")


def test_fail_open_lets_it_pass_with_a_warning_but_never_a_conflict(repository: Repository) -> None:
    installed = repository.call("alice")("guard", "install", "--fail-open").json
    assert installed["fail_open"] is True
    held(repository, "src")
    assert repository.commit("src/a.py").status == 1
    lose_board(repository)
    passed = repository.git("commit", "-m", "c")
    assert (passed.status, refusal(passed)["code"]) == (0, "no_board")
    # Not even the command is there, as in a program that has another $PATH.
    (repository.main.parent / "bin" / "coordinate").unlink()
    missing = repository.commit("b.py")
    assert missing.status == 0 and "coordinate is not in $PATH" in missing.err


def test_without_the_command_a_commit_is_refused_in_one_sentence(guarded: Repository) -> None:
    (guarded.main.parent / "bin" / "coordinate").unlink()
    refused = guarded.commit("a.py")
    (line,) = refused.err.splitlines()
    assert refused.status == 1 and "coordinate is not in $PATH" in line and "put it there" in line


# --- install ----------------------------------------------------------------------------------------------------------


def test_install_answers_what_it_wrote_and_may_be_repeated(repository: Repository) -> None:
    call = repository.call("alice", at=repository.linked)
    first = call("guard", "install").json
    hook = repository.main / ".git" / "hooks" / "pre-commit"
    assert first == {"installed": str(hook), "runs": "coordinate guard check --staged", "fail_open": False}
    before = hook.read_text()
    call("guard", "install", "--fail-open", "--project", "it's $HOME")
    assert hook.read_text() != before
    held(repository, "src")
    assert repository.commit("src/a.py").status == 0  # nobody holds it in that project
    assert call("guard", "install").status == 0
    assert hook.read_text() == before
    assert repository.commit("src/b.py").status == 1


def test_somebody_elses_hook_is_kept(repository: Repository) -> None:
    hook = repository.main / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho theirs\n")
    refused = repository.call("alice")("guard", "install")
    assert (refused.status, refused.error["code"]) == (2, "invalid_state")
    assert "coordinate guard check --staged" in refused.error["hint"]
    assert hook.read_text() == "#!/bin/sh\necho theirs\n"
    hook.unlink()
    hook.symlink_to(repository.main / "nowhere")
    assert repository.call("alice")("guard", "install").status == 2
    assert not (repository.main / "nowhere").exists()


def test_ours_with_more_lines_in_it_is_kept_too(guarded: Repository) -> None:
    hook = guarded.main / ".git" / "hooks" / "pre-commit"
    edited = hook.read_text().replace("exec ", "make lint\nexec ")
    hook.write_text(edited)
    assert guarded.call("alice")("guard", "install").status == 2
    assert hook.read_text() == edited


def test_install_follows_core_hooks_path(repository: Repository) -> None:
    repository.git("config", "core.hooksPath", ".githooks")
    (repository.main / "sub").mkdir()
    installed = repository.call("alice", at=repository.main / "sub")("guard", "install").json
    assert installed["installed"] == str(repository.main / ".githooks" / "pre-commit")
    held(repository, "src")
    assert repository.commit("src/a.py").status == 1


def test_install_leaves_hooks_alone_that_are_of_other_repositories_too(repository: Repository, tmp_path: Path) -> None:
    """They have no board, and every commit in them would be refused."""
    shared = tmp_path / "hooks-of-all"
    repository.git("config", "core.hooksPath", str(shared))
    refused = repository.call("alice")("guard", "install").error
    assert (refused["code"], "coordinate guard check --staged" in refused["hint"]) == ("invalid_state", True)
    assert not shared.exists()


def test_install_where_no_file_can_be_written_is_refused_in_words(repository: Repository) -> None:
    hooks = repository.main / ".git" / "hooks"
    (hooks / "pre-commit").mkdir(parents=True)
    assert repository.call("alice")("guard", "install").error["code"] == "invalid_input"
    shutil.rmtree(hooks)
    hooks.touch()
    assert repository.call("alice")("guard", "install").error["code"] == "invalid_input"


def test_install_outside_of_a_checkout_is_refused(repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for words in (("install",), ("check", "--staged")):
        refused = repository.call("alice", at=outside)("guard", *words)
        assert (refused.status, refused.error["code"]) == (2, "invalid_input"), words
    assert list(outside.iterdir()) == []


# --- paths and editors ------------------------------------------------------------------------------------------------


def test_a_path_decides_not_the_folder_of_the_caller(repository: Repository, tmp_path: Path) -> None:
    held(repository, "src/api")
    outside = tmp_path / "outside"
    outside.mkdir()
    for where in (repository.main, repository.linked):
        target = str(where / "src" / "api" / "not" / "there" / "yet.py")
        for at in (repository.main, repository.linked, outside):
            refused = repository.call("alice", at=at)("guard", "check", target)
            assert (refused.status, refused.error["holder"]) == (3, "bob"), (where, at)
    assert repository.call("alice", at=repository.main)("guard", "check", "src/api/x.py").status == 3
    (repository.main / "src").mkdir()
    assert repository.call("alice", at=repository.main / "src")("guard", "check", "api").status == 3
    free = repository.call("alice", at=outside)("guard", "check", str(repository.linked / "docs/a.md")).json
    assert free == {"granted": True, "paths": ["docs/a.md"]}


def test_a_guard_that_is_asked_for_nothing_is_not_taken_for_one_that_passed(guarded: Repository) -> None:
    for words in ((), ("--task", "TASK-1"), ("",)):
        refused = guarded.call("alice")("guard", "check", *words)
        assert (refused.status, refused.error["code"]) in ((2, "usage"), (2, "invalid_input")), words
    assert guarded.call("alice")("guard", "check", "--staged").json == {"granted": True, "paths": []}
    assert guarded.git("commit", "-m", "nothing", "--allow-empty").status == 0


def test_a_folder_is_asked_for_with_all_below_it_also_the_top(repository: Repository) -> None:
    repository.write("docs/a.md")
    assert repository.call("alice")("guard", "check", ".").json["paths"] == ["."]
    held(repository, "src/api/x.py")
    for at, path, status in (
        (repository.main, ".", 3),
        (repository.main, str(repository.linked), 3),
        (repository.main / "docs", "..", 3),
        (repository.main / "docs", ".", 0),
    ):
        assert repository.call("alice", at=at)("guard", "check", path).status == status, (at, path)


def test_a_backslash_in_a_name_is_asked_for_as_a_claim_would_read_it(guarded: Repository) -> None:
    held(guarded, "a\\b.py")
    refused = guarded.commit("a\\b.py")
    assert (refused.status, refusal(refused)["holder"]) == (1, "bob")
    later(guarded)
    held(guarded, "folder/c.py")
    for name in ("a\\b.py", "..\\b.py", "\\", "C:", "C:\\x"):
        passed = guarded.commit(name)
        assert (passed.status, passed.err) == (0, ""), name


def test_a_deep_name_of_many_bytes_is_asked_for_by_its_folder(guarded: Repository) -> None:
    deep = "/".join(["src", *("日" * 80,) * 12])
    assert guarded.commit(deep).status == 0
    held(guarded, "src")
    assert guarded.commit(deep).status == 1


def test_the_handle_of_a_task_shows_that_its_scopes_are_yours(guarded: Repository) -> None:
    alice = guarded.call("alice")
    alice("task", "dispatch", "--title", "t", "--role", "w", "--scope", "src")
    assert alice("task", "claim-next", "--role", "w").json["claim"] == "TASK-1@1"
    assert alice("guard", "check", "src/a.py").status == 3
    assert alice("guard", "check", "src/a.py", "--task", "TASK-1@1").status == 0
    # A commit has no flag; the handle stands where `coordinate run` puts it, with the name.
    environment = {"COORDINATE_AGENT": "alice"}
    assert guarded.commit("src/a.py", **environment).status == 1
    assert guarded.git("commit", "-m", "c", **environment, COORDINATE_CLAIM="TASK-1@1").status == 0
    guarded.write("src/a.py", "by run")
    nobody = guarded.call()
    nobody.environment |= guarded.environment
    assert nobody("run", "TASK-1@1", "--agent", "alice", "--", "git", "commit", "-aqm", "c").status == 0
    # Another's, and one that is over, prove nothing.
    for words in (("--agent", "bob", "--task", "TASK-1@1"), ("--task", "TASK-1@7")):
        refused = alice("guard", "check", "src/a.py", *words)
        assert (refused.status, refused.error["code"]) == (4, "stale_claim"), words


def test_a_link_is_followed_to_what_it_leads_to(repository: Repository) -> None:
    held(repository, "src/api")
    repository.write("src/api/x.py")
    (repository.main / "alias").symlink_to("src")
    (repository.main / "x.py").symlink_to("src/api/x.py")
    call = repository.call("alice")
    assert call("guard", "check", "alias/api/y.py").status == 3
    assert call("guard", "check", "x.py").status == 3
    assert call("guard", "check", "alias/b.py").status == 0


def test_a_path_that_is_no_file_of_a_checkout_is_refused(repository: Repository, tmp_path: Path) -> None:
    for path in (str(tmp_path / "notes.txt"), ".git/config"):
        refused = repository.call("alice")("guard", "check", path)
        assert (refused.status, refused.error["code"]) == (2, "invalid_input"), path


def test_a_fence_or_a_session_shows_whose_lease_it_is(repository: Repository) -> None:
    (lease,) = repository.call("alice")("lease", "claim", "src").json["leases"]
    assert repository.call("alice")("guard", "check", "src/a.py").status == 3
    assert repository.call("alice")("guard", "check", "src/a.py", "--fence", str(lease["fence"])).status == 0
    assert repository.call("alice")("guard", "check", "src/a.py", "--project", "other").status == 0


Told = Callable[[Repository], dict[str, Any]]


@pytest.mark.parametrize(
    "told",
    [
        lambda found: {"tool_input": {"file_path": str(found.main / "src/a.py"), "content": "…"}},
        lambda found: {"tool_input": {"file_path": "src/a.py"}, "cwd": str(found.linked)},
        lambda found: {"tool_input": {"file_path": "a.py"}, "cwd": str(found.main / "src")},
        lambda found: {"tool_input": {"notebook_path": str(found.linked / "src/n.ipynb")}},
    ],
    ids=["absolute", "relative to a worktree", "relative to a subfolder", "notebook"],
)
def test_an_editors_hook_is_refused_what_another_holds(repository: Repository, tmp_path: Path, told: Told) -> None:
    repository.write("src/a.py")
    held(repository, "src")
    call = repository.call("alice", at=tmp_path)
    refused = call("guard", "check", "--stdin", stdin=json.dumps(told(repository)))
    assert (refused.status, refused.error["holder"]) == (3, "bob")
    session = session_of(repository, "bob")
    assert call("guard", "check", "--stdin", stdin=json.dumps(told(repository)), COORDINATE_AGENT="").status == 3
    repository.call("bob")("lease", "release", "--fence", "1")
    assert repository.call()("lease", "claim", "src", "--session", session).status == 0
    own = {"COORDINATE_SESSION": session, "COORDINATE_AGENT": ""}
    assert call("guard", "check", "--stdin", stdin=json.dumps(told(repository)), **own).status == 0


def test_an_editors_hook_lets_pass_what_no_scope_can_mean(repository: Repository, tmp_path: Path) -> None:
    held(repository, ".")
    call = repository.call("alice")
    for told in ({"tool_input": {"file_path": str(tmp_path / "scratch.txt")}}, {"tool_input": {"command": "ls"}}, {}):
        assert call("guard", "check", "--stdin", stdin=json.dumps(told)).json == {"granted": True, "paths": []}
    # But not what lies in a checkout that git cannot read: nobody can tell what it is.
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_text("gitdir: nowhere\n")
    refused = call("guard", "check", "--stdin", stdin=json.dumps({"tool_input": {"file_path": str(broken / "a.py")}}))
    assert (refused.status, refused.error["code"]) == (2, "invalid_input")


NO_PATHS = ("\\u0000", "a\\u0000b", "\\ud800", "/\\ud800/..")
LONG = ("a" * 5_000, "a/" * 3_000)


def test_whatever_an_editor_says_is_answered_or_refused_clearly(repository: Repository) -> None:
    call = repository.call("alice")
    refused = [
        *("", "[]", "{", "null", '"text"', "[" * 100_000, "1" * 5_000, "\x00"),
        *('{"tool_input": 7}', '{"tool_input": null}', '{"tool_input": ["file_path"]}'),
        *('{"tool_input": {"file_path": 7}}', '{"cwd": 7, "tool_input": {"file_path": "a"}}'),
        *(f'{{"tool_input": {{"file_path": "{odd}"}}}}' for odd in NO_PATHS),
        f'{{"cwd": "{NO_PATHS[0]}", "tool_input": {{"file_path": "a"}}}}',
    ]
    for said in refused:
        answer = call("guard", "check", "--stdin", stdin=said)
        assert (answer.status, answer.error["code"], bool(answer.error["hint"])) == (2, "invalid_input", True), said[
            :50
        ]
    # What no disk holds is a name like others.
    for long in LONG:
        assert call("guard", "check", "--stdin", stdin=f'{{"tool_input": {{"file_path": "{long}"}}}}').status == 0


def test_the_snippet_stops_an_edit_with_exit_2(repository: Repository) -> None:
    held(repository, "src")
    (entry,) = repository.call()("guard", "snippet").json["hooks"]["PreToolUse"]
    (hook,) = entry["hooks"]
    assert (hook["type"], "Write" in entry["matcher"]) == ("command", True)

    def edit(name: str) -> subprocess.CompletedProcess[bytes]:
        told = json.dumps({"tool_input": {"file_path": str(repository.main / name)}}).encode()
        return subprocess.run(
            ["sh", "-c", hook["command"]], input=told, env=repository.environment, cwd=repository.main.parent,
            capture_output=True, check=False,
        )  # fmt: skip

    assert (edit("docs/a.md").returncode, edit("docs/a.md").stdout) == (0, b"")
    refused = edit("src/a.py")
    assert (refused.returncode, json.loads(refused.stderr)["holder"]) == (2, "bob")
    (repository.main.parent / "bin" / "coordinate").unlink()
    missing = edit("docs/a.md")
    assert missing.returncode == 2 and b"coordinate is not in $PATH" in missing.stderr
    (entry,) = repository.call()("guard", "snippet", "--fail-open").json["hooks"]["PreToolUse"]
    (hook,) = entry["hooks"]
    assert "--fail-open" in hook["command"] and edit("docs/a.md").returncode == 0
