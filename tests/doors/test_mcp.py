"""`coordinate mcp` as its clients have it: a process of its own, driven by the official SDK's client."""

from __future__ import annotations

import ast
import fcntl
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import coordinate
from coordinate import Coordinator
from coordinate.mcp.fitting import fitted
from coordinate.mcp.server import ANSWER_MAX, definitions
from coordinate.mcp.tools import PROFILES, tools_of
from coordinate.mcp.words import in_tools
from coordinate.operations import _ANYBODY, MAY, NOT_OFFERED, operations
from tests.clock import age
from tests.doors.client import ERAS, folder_of, over_stdio, run
from tests.doors.command import COORDINATE, Command
from tests.races.arena import change

TOKENS_MAX = 6_000
# What is the same on both engines is tested on one.
ON_A_FILE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
WINGS = ("work", "fleet", "inbox", "flows")
ONLY_AN_ADMIN = {"create_token", "revoke_token", "prune", "repair", "rewind"}


@pytest.fixture
def command(board_url: str, tmp_path: Path) -> Command:
    return Command(board_url, folder_of(tmp_path))


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_costs_its_reader_little(profile: str) -> None:
    """Counted as one token for three characters of the definitions' JSON: more than tokenizers make of such text."""
    shown = [tool.model_dump(by_alias=True, exclude_none=True) for tool in definitions(profile)]
    assert 8 <= len(shown) <= 16
    assert len(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) / 3 < TOKENS_MAX
    for tool in shown:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool["name"])
        assert tool["description"]
        assert not {"agent", "session", "override"} & tool["inputSchema"]["properties"].keys()


def test_tools_speak_of_tools_and_codes_and_of_no_shell() -> None:
    """No refusal of an operation sends a client to a command that it cannot type, or to a tool that it has not."""
    for profile in PROFILES:
        for tool in tools_of(profile).values():
            assert not re.search(r"`[A-Z]\w+[a-z]\w*`|86,400", tool.says.replace("`Asked`", "")), tool.says
            assert "`complete`" not in tool.says
    source = Path(coordinate.__file__).parent
    hints: set[str] = set()
    for path in (*source.glob("*.py"), *(each for wing in WINGS for each in (source / wing).glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                hints |= {re.sub(r"\{.*?\}", "TASK-1", said) for said in _texts(node.value)}
    assert len(hints) > 100
    for hint, profile in itertools.product(hints, PROFILES):
        told = in_tools({"error": "", "hint": hint}, profile)["hint"]
        assert not re.search(r"coordinate [a-z]|--\w|\$[A-Z]|`[a-z]+ ", told), (hint, told)
    for hint, told in (
        (
            "stop working on it; claim the next task, or see `coordinate task mine`",
            "stop working on it; claim the next task, or see list_my_tasks",
        ),
        ("see: coordinate task view TASK-1", "see: view_task TASK-1"),
        ("show the fence that the claim gave, or set $COORDINATE_SESSION", "show the fence that the claim gave"),
        ("coordinate task list shows what there is", ""),
        ("name it: response_seq=2, on the command line --response 2", "name it: response_seq=2"),
    ):
        assert in_tools({"error": "", "hint": hint}, "worker")["hint"] == told
    assert in_tools({"error": "block needs reason", "hint": ""}, "worker")["error"] == "block_task needs reason"


def _texts(value: ast.expr) -> list[str]:
    """The texts that an expression may be, as they stand in the source."""
    if isinstance(value, ast.IfExp):
        return [*_texts(value.body), *_texts(value.orelse)]
    if isinstance(value, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else "{}" for part in value.values)]
    return [value.value] if isinstance(value, ast.Constant) and isinstance(value.value, str) else []


def test_every_operation_is_offered_and_says_who_may_call_it() -> None:
    public = {name for name, value in vars(Coordinator).items() if callable(value) and not name.startswith("_")}
    assert set(operations()) == public - NOT_OFFERED
    given = set.union(_ANYBODY, *MAY.values())
    assert [name for name in given if name not in operations()] == []
    assert {name for name, each in operations().items() if not each.looks} - given == ONLY_AN_ADMIN


# --- a worker's whole loop --------------------------------------------------------------------------------------------


def test_a_worker_and_a_reviewer_do_their_whole_loop(board: Coordinator, command: Command, engine: str) -> None:
    era = ERAS[engine]
    board.dispatch(title="Write the parser", role="worker", body="by hand", scopes=["src/parser"])

    async def loop() -> None:
        async with (
            over_stdio(command, "--agent", "bob", era=era) as worker,
            over_stdio(command, "--agent", "rita", "--profile", "reviewer", era=era) as reviewer,
        ):
            claim = await worker("claim_next_task", role="worker")
            assert (claim["handle"], claim["task"]["body"]) == ("TASK-1@1", "by hand")
            assert (await worker("claim_scopes", patterns=["docs"]))["granted"]
            await worker("log_progress", handle=claim["handle"], note="the grammar stands")
            assert [task["claim"] for task in await worker("list_my_tasks")] == [claim["handle"]]
            assert await worker("wait_for", role="worker", wait=0) == {
                "work": False,
                "answers": [],
                "said": [],
                "more": 0,
            }
            done = await worker("complete_task", handle=claim["handle"], review=True, result="parser.py")
            assert done["task"]["status"] == "IN_REVIEW"
            assert (await reviewer("claim_review"))["id"] == "TASK-1"
            assert (await reviewer("view_task", task="TASK-1"))["notes"][0]["content"] == "the grammar stands"
            assert (await reviewer("approve_task", task="TASK-1"))["status"] == "DONE"
            story = json.loads((await worker.client.read_resource("coordinate://task/TASK-1")).contents[0].text)  # type: ignore[union-attr]
            assert story["task"]["result"] == "parser.py"

    run(loop)
    assert board.view(task="TASK-1").task.claimed_by == "bob"


@ON_A_FILE
def test_all_reaches_every_operation_by_its_name(board: Coordinator, command: Command) -> None:
    async def loop() -> None:
        async with over_stdio(command, "--agent", "max", "--profile", "all") as agent:
            listed = await agent("describe_operations")
            assert set(listed) == set(operations())
            assert (
                "count"
                in (await agent("describe_operations", names=["claim_batch"]))["claim_batch"]["takes"]["required"]
            )
            await agent("dispatch_task", title="A", role="worker")
            claims = await agent("call_operation", name="claim_batch", arguments={"role": "worker", "count": 5})
            assert [each["handle"] for each in claims] == ["TASK-1@1"]
            assert (await agent.refused("call_operation", name="close"))["code"] == "not_found"
            assert (
                "body"
                in (await agent("describe_operations", names=["dispatch_task"]))["dispatch"]["takes"]["properties"]
            )
            assert await agent("call_operation", name="list_my_tasks") != []  # a tool's name leads there as well
            assert (await agent.refused("describe_operations", names=[{"a": 1}]))["code"] == "not_found"
            assert (await agent.refused("describe_operations", name="claim_batch"))["field"] == "arguments"
            assert (await agent.refused("describe_operations", names="claim_batch"))["field"] == "names"
            assert (await agent.refused("call_operation", name="mine", args={}))["field"] == "arguments"

    run(loop)


@ON_A_FILE
def test_a_refusal_has_code_hint_and_facts(board: Coordinator, command: Command) -> None:
    board.dispatch(title="A", role="worker")
    board.claim_task(task="TASK-1")

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:
            held = await bob.refused("complete_task", handle="TASK-1@1")
            assert (held["code"], held["task_id"]) == ("held_by_another", "TASK-1")
            assert held["hint"]
            assert (await bob.refused("approve_task", task="TASK-1"))["code"] == "not_found"  # not this profile's
            assert (await bob.refused("claim_next_task"))["field"] == "role"
            assert (await bob.refused("claim_next_task", role="worker", agent="eve"))["field"] == "arguments"
            assert (await bob.refused("claim_next_task", role="worker", wait=51))["field"] == "wait"
            assert (await bob.refused("claim_next_task", role=["worker"]))["field"] == "role"

    run(loop)
    assert board.mine()[0].id == "TASK-1"


@ON_A_FILE
def test_an_agent_may_not_override_a_review(board: Coordinator, command: Command) -> None:
    board.dispatch(title="A", role="worker")
    board.complete(handle=board.claim_task(task="TASK-1"), review=True)

    async def loop() -> None:
        async with over_stdio(command, "--agent", "alice", "--profile", "reviewer") as alice:
            assert (await alice.refused("approve_task", task="TASK-1"))["code"] == "self_review"
            assert (await alice.refused("approve_task", task="TASK-1", override="me"))["code"] == "not_allowed"

    run(loop)


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_each_client_is_one_session_and_a_lost_connection_no_end(board: Coordinator, command: Command) -> None:
    board.dispatch(title="A", role="worker")

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as first, over_stdio(command, "--agent", "bob") as second:
            await first("claim_next_task", role="worker")
            assert (await first("claim_scopes", patterns=["src"]))["granted"]
            assert not (await second("claim_scopes", patterns=["src/parser"]))["granted"]
        assert [each.live for each in board.list_sessions(of_agent="bob")] == [True, True]
        held = board.list_leases(held_by="bob")[0]
        assert held.session_id is not None
        async with over_stdio(command, COORDINATE_SESSION=held.session_id) as again:
            assert (await again("claim_scopes", patterns=["src/parser"]))["granted"]
            await again("complete_task", handle="TASK-1@1")

    run(loop)
    assert board.view(task="TASK-1").task.status == "DONE"


@ON_A_FILE
def test_a_client_whose_session_is_over_goes_on_as_the_refusal_says(
    board: Coordinator, board_url: str, command: Command
) -> None:
    """Whether it ended that itself, somebody else did, or the board was put back to a day before it."""
    board.dispatch(title="A", role="worker")

    def own() -> Coordinator:
        session = board.list_sessions(of_agent="bob")[0].id
        return board.acting(agent="bob", session=session)

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob", "--profile", "all") as bob:
            assert not (await bob("call_operation", name="end_session"))["live"]
            claim = await bob("claim_next_task", role="worker")
            own().end_session()
            for says in ("was ended", "there is no session"):
                told = await bob.refused("claim_next_task", role="worker")
                assert says in told["error"] and told["hint"].startswith("call again")
                assert await bob("claim_next_task", role="worker") is None
                change(board_url, f"DELETE FROM sessions WHERE id = '{own().session}'")
            await bob.refused("claim_next_task", role="worker")
            assert (await bob("complete_task", handle=claim["handle"]))["task"]["status"] == "DONE"
        begun = board.register(name="eve")
        async with over_stdio(command, COORDINATE_SESSION=begun.id) as eve:
            board.acting(agent="eve", session=begun.id).end_session()
            assert (await eve.refused("claim_next_task", role="worker"))["hint"].startswith("call again")
            assert await eve("claim_next_task", role="worker") is None

    run(loop)
    assert [each.live for each in board.list_sessions(of_agent="bob", ended=True)].count(True) == 1


@ON_A_FILE
def test_a_session_knows_where_its_client_works(board: Coordinator, command: Command) -> None:
    for words in (
        ["init", "-q", "-b", "parser"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *words], cwd=command.folder, check=True)

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob", name="some-client") as bob:
            await bob("list_my_tasks")

    run(loop)
    session = board.list_sessions(of_agent="bob")[0]
    assert (session.project, session.stream, session.doing) == ("work", "parser", "connected by some-client")


@ON_A_FILE
def test_words_of_others_and_losses_come_along_once(board: Coordinator, command: Command) -> None:
    """And whole, however much there is of either and of what was said with them; so do those that a wait brings."""
    paths = [f"src/{number:030}" for number in range(40)]
    said = [f"{number} {'the tests need a server' * 100}"[:2_000] for number in range(9)]

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:
            await bob("claim_scopes", patterns=paths, ttl_seconds=1)
            for message in said[:4]:
                board.emit(event_type="note", message=message, payload={"numbers": list(range(5_000))})
            time.sleep(1.2)
            board.sweep()
            await bob("list_my_tasks")
            assert [each["message"] for each in bob.answer["unread"]] == said[:3]
            assert bob.answer["unread_more"] >= 1
            assert [each["resource"] for each in bob.answer["lost"]["leases"]] == paths
            assert len(json.dumps(bob.answer, ensure_ascii=False)) <= ANSWER_MAX
            time.sleep(1.2)
            await bob("list_my_tasks")
            assert bob.answer["unread"][0]["message"] == said[3]
            assert "lost" not in bob.answer
            for message in said[4:]:
                board.emit(event_type="note", message=message, payload={"numbers": list(range(5_000))})
            told = await bob("wait_for", wait=5)
            assert [each["message"] for each in told["said"]] == said[4:]

    run(loop)


@ON_A_FILE
def test_any_call_renews_what_the_session_holds_and_brings_answers(
    board: Coordinator, board_url: str, command: Command
) -> None:
    board.dispatch(title="A", role="worker")

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:
            await bob("claim_next_task", role="worker", lease_seconds=100)
            await bob("claim_scopes", patterns=["src"], ttl_seconds=100)
            asked = await bob("ask_human", title="Which?", action_owner="task", impact="the parser waits")
            await anyio.to_thread.run_sync(lambda: board.respond(ask=asked["ask"]["id"], text="this", agent="hugo"))
            for _ in range(2):  # 120 seconds in all
                await anyio.to_thread.run_sync(lambda: age(board_url, 60))
                time.sleep(1.2)  # a session gives a sign of life at most once a second
                await bob("list_my_tasks")
            assert bob.answer["answers"] == [asked["ask"]["id"]]
            assert "lost" not in bob.answer
            assert (await bob("log_progress", handle="TASK-1@1", note="still here"))["status"] == "IN_PROGRESS"

    run(loop)
    assert [each.resource for each in board.list_leases(kind="scope")] == ["src"]


@ON_A_FILE
def test_a_board_the_inbox_and_the_status_are_resources(board: Coordinator, command: Command) -> None:
    board.board_upsert(title="Search & find", rows=[{"label": "Index"}])
    board.board_upsert(title="1/2", rows=[{"label": f"row {number}", "note": "n" * 200} for number in range(200)])
    for number in range(120):
        board.ask(title=f"Which colour, {number}?", action_owner="task", impact="the logo")
    for number in range(1, 10):
        board.dismiss(ask=f"ASK-{number}", agent="ann")

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:

            async def read(uri: str) -> Any:
                return json.loads((await bob.client.read_resource(uri)).contents[0].text)  # type: ignore[union-attr]

            for title in ("Search & find", "Search%20%26%20find"):
                assert (await read(f"coordinate://board/{title}"))["rows"][0]["label"] == "Index"
            rows, page = [], await read("coordinate://board/1%2F2")
            while "next" in page:
                rows += page["rows"]
                page = await read(page["next"])
            assert [row["label"] for row in [*rows, *page["rows"]]] == [f"row {number}" for number in range(200)]
            assert rows and rows[0]["note"] == "n" * 200
            assert [ask["id"] for ask in await read("coordinate://inbox")] == [f"ASK-{n}" for n in range(10, 110)]
            assert (await read("coordinate://status")).keys() >= {"by_status"}

    run(loop)


def test_a_wait_ends_with_the_work_of_another_process(board: Coordinator, command: Command) -> None:
    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob, over_stdio(command, "--agent", "eve") as eve:
            assert (await bob("wait_for", role="worker", wait=0))["work"] is False
            found: dict[str, Any] = {}

            async def wait() -> None:
                found["told"] = await bob("wait_for", role="worker", wait=50)

            async def claim() -> None:
                found["claim"] = await eve("claim_next_task", role="tester", wait=50)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                tasks.start_soon(claim)
                await anyio.sleep(0.5)
                assert not found
                await anyio.to_thread.run_sync(lambda: board.dispatch(title="A", role="worker"))
                await anyio.to_thread.run_sync(lambda: board.dispatch(title="B", role="tester"))
            assert found["told"]["work"] is True
            assert found["claim"]["handle"] == "TASK-2@1"

    began = time.monotonic()
    run(loop)
    assert time.monotonic() - began < 45, "the waits ran to their ends"


@ON_A_FILE
def test_an_agent_asks_is_woken_by_the_answer_and_acts_on_it(board: Coordinator, command: Command) -> None:
    board.dispatch(title="A", role="worker")

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:
            claim = await bob("claim_next_task", role="worker")
            asked = await bob(
                "ask_human",
                title="Which grammar?",
                action_owner="decision",
                impact="the parser waits",
                options=["PEG", "LR"],
                task=claim["handle"],
            )
            ask = asked["ask"]["id"]
            waited: list[Any] = []

            async def wait() -> None:
                waited.append(await bob("wait_for", wait=50))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.sleep(0.5)
                await anyio.to_thread.run_sync(lambda: board.respond(ask=ask, choice="PEG", agent="hugo"))
            assert waited[0]["answers"] == [ask]
            (response,) = (await bob("read_answers"))["responses"]
            assert (response["id"], response["response_seq"]) == (ask, 1)
            told = await bob("acknowledge_answer", ask=ask, response_seq=1, outcome="PEG it is")
            assert told["ask"]["outcome"] == "PEG it is"
            assert (await bob("wait_for", wait=0))["answers"] == []
            story = await bob.client.read_resource(f"coordinate://ask/{ask}")
            assert "PEG it is" in story.contents[0].text  # type: ignore[union-attr]

    run(loop)


# --- answers ----------------------------------------------------------------------------------------------------------


@ON_A_FILE
def test_answers_are_bounded_and_say_what_was_cut(board: Coordinator, command: Command) -> None:
    for number in range(30):
        board.dispatch(title=f"T{number}", role="worker", body="x" * 10_000)
    board.dispatch(title="Long", role="worker", priority=1, body="é" * 100_000)

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob", "--profile", "all") as bob:
            page = await bob("list_tasks")
            assert len(json.dumps(bob.answer, ensure_ascii=False)) <= ANSWER_MAX * 1.1
            assert len(page["tasks"]) == 20
            assert "more characters]" in page["tasks"][1]["body"]
            assert len((await bob("list_tasks", after=page["next"]))["tasks"]) == 11
            claim = await bob("claim_next_task", role="worker")
            assert claim["task"]["body"].endswith("[60000 more characters]")
            parts = []
            for offset in (0, 40_000, 80_000):
                read = await bob.client.read_resource(f"coordinate://task/TASK-31/body/{offset}")
                parts.append(read.contents[0].text)  # type: ignore[union-attr]
            assert "".join(parts) == "é" * 100_000

    run(loop)


@ON_A_FILE
def test_what_was_done_is_told_as_done_however_long_its_answer(
    board: Coordinator, board_url: str, command: Command
) -> None:
    """With the handle of each task that was claimed, and what comes along with every answer."""
    plan = [{"key": f"k{number}", "title": f"T{number}"} for number in range(150)]

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob", "--profile", "all") as bob:
            await bob.refused("call_operation", name="close")  # its session is there
            (session,) = board.list_sessions()
            board.acting(agent="bob", session=session.id).claim_scopes(patterns=["src"], ttl_seconds=1)
            age(board_url, 2)
            board.sweep()
            board.emit(event_type="note", message="the tests need a server")
            planned = await bob("call_operation", name="dispatch_plan", arguments={"plan": plan})
            assert [each["task"]["id"] for each in planned] == [f"TASK-{number}" for number in range(1, 151)]
            assert {"shortened", "unread", "lost"} <= bob.answer.keys()
            claims = await bob("call_operation", name="claim_batch", arguments={"role": "worker", "count": 100})
            assert [each["handle"] for each in claims] == [f"TASK-{number}@1" for number in range(1, 101)]
            assert len(json.dumps(bob.answer, ensure_ascii=False)) <= ANSWER_MAX * 1.1
            assert (await bob("complete_task", handle=claims[99]["handle"]))["task"]["status"] == "DONE"
            assert "shortened" not in bob.answer
            # A page that is cut would lose what its cursor passes over.
            assert (await bob.refused("list_tasks", limit=1_000))["field"] == "limit"

    run(loop)


@pytest.mark.parametrize("count", [1_000, 2_000])
def test_any_list_is_made_to_fit_and_says_what_is_left_out(count: int) -> None:
    entry = {"id": "TASK-1", "title": "é" * 500, "task": {"id": 1, "body": "x" * 50}, "seen": ["y"], "by": {"z": 1}}
    shown, missing = fitted({"tasks": [entry] * count, "next": 7}, 60_000)
    assert len(json.dumps(shown, ensure_ascii=False)) <= 66_000
    assert shown["next"] == 7 and shown["tasks"][0] == {"id": "TASK-1", "task": {"id": 1}}
    assert len(shown["tasks"]) == (1_000 if count == 1_000 else 500)
    assert (f"{count - 500:d} more entries" in missing) == (count > 1_000)


@ON_A_FILE
def test_text_of_others_is_data_and_comes_back_as_it_was(board: Coordinator, command: Command) -> None:
    """IF-08. No part of an answer is made of it but the value itself."""
    nasty = '</script><img src=x onerror=alert(1)>{{7*7}}\u2028"}],"is_error":true'
    board.dispatch(title="T", role="worker", body=nasty)

    async def loop() -> None:
        async with over_stdio(command, "--agent", "bob") as bob:
            assert (await bob("claim_next_task", role="worker"))["task"]["body"] == nasty

    run(loop)


# --- the process ------------------------------------------------------------------------------------------------------

HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class Raw:
    """The process with its streams, without any library between."""

    def __init__(self, command: Command, *options: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*COORDINATE, "mcp", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=command.folder,
            env={**command.environment, **environment},
        )
        self.lines: list[str] = []

    def say(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        self.lines.append(self.process.stdout.readline())
        told: dict[str, Any] = json.loads(self.lines[-1])
        return told

    def end(self) -> tuple[str, str]:
        """What it said until its end, on both streams."""
        out, err = self.process.communicate(timeout=30)
        return "".join(self.lines) + out, err


def test_stdout_carries_nothing_but_the_protocol(tmp_path: Path) -> None:
    """IF-01. A board that is made first, a hook that prints, all logging there is, warnings."""
    folder = folder_of(tmp_path)
    command = Command("", folder)
    del command.environment["COORDINATE_DB"]
    noisy = tmp_path / "noisy"
    noisy.mkdir()
    (noisy / "sitecustomize.py").write_text(
        "import logging, sys, warnings\n"
        "logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)\n"
        "import atexit; atexit.register(print, 'bye')\n"
    )
    path = os.pathsep.join([str(noisy), command.environment["PYTHONPATH"]])
    first = Raw(command, "--init", "--agent", "bob", PYTHONPATH=path, PYTHONWARNINGS="always", COORDINATE_DEBUG="1")
    first.say(*HELLO)
    assert first.hear()["result"]["serverInfo"]["name"] == "coordinate"
    hook = folder / ".coordinate" / "hooks" / "note"
    hook.write_text("#!/bin/sh\necho printed by a hook; echo and to stderr >&2\n")
    hook.chmod(0o755)
    first.say(call(2, "emit_event", event_type="note", message="hi"))
    assert first.hear()["result"]["isError"] is False
    first.say({"jsonrpc": "2.0", "id": 3, "method": "no/such"}, {"not": "a message"}, call(4, "list_my_tasks"))
    first.hear()
    first.hear()
    out, err = first.end()
    assert "printed by a hook" in err
    for line in out.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert first.process.returncode == 0
    assert [path.name for path in folder.iterdir()] == [".coordinate"]


@ON_A_FILE
def test_a_line_that_is_no_message_is_answered(board: Coordinator, command: Command) -> None:
    client = Raw(command, "--agent", "bob")
    client.say(*HELLO)
    client.hear()
    for line, number, code in (
        (json.dumps(call(7, "emit_event", event_type="note", message="\ud800")), 7, -32700),
        (json.dumps({**call(7, "emit_event"), "id": "\udfff"}), None, -32700),
        ("{", None, -32700),
        ("[" * 100_000, None, -32700),
        ('{"id": 8, "method": 1}', 8, -32600),
        ("[]", None, -32600),
    ):
        client.process.stdin.write(line + "\n")  # type: ignore[union-attr]
        client.say()
        told = client.hear()
        assert (told["id"], told["error"]["code"]) == (number, code), line[:80]
    # What asks for no answer gets none: the next one is to the call behind it.
    said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9, "reason": "\udc00"}}
    client.say(said, call(9, "list_my_tasks"))
    assert client.hear()["id"] == 9
    assert client.end()[1] == ""


@ON_A_FILE
def test_a_cancellation_that_names_no_call_ends_nothing(board: Coordinator, command: Command) -> None:
    client = Raw(command, "--agent", "bob")
    client.say(*HELLO)
    client.hear()
    for params in ({"requestId": [1]}, {"requestId": {}}, {"requestId": None}, {"requestId": 1.5}, {}, [], None):
        client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    client.say(call(9, "list_my_tasks"))
    assert client.hear()["id"] == 9
    client.end()
    assert client.process.returncode == 0


@ON_A_FILE
def test_who_has_said_all_is_still_answered(board: Coordinator, command: Command) -> None:
    """As by a pipe, where stdin ends with the last question; what was done is told, and a wait is over."""
    asked = [*HELLO, *(call(number, "list_my_tasks") for number in range(2, 9))]
    asked += [call(9, "emit_event", event_type="done"), call(10, "wait_for", role="nobody", wait=50)]
    piped = subprocess.run(
        [*COORDINATE, "mcp", "--agent", "bob"],
        check=True,
        input="".join(json.dumps(each) + "\n" for each in asked),
        capture_output=True,
        text=True,
        cwd=command.folder,
        env=command.environment,
        timeout=60,
    )
    answers = [json.loads(line) for line in piped.stdout.splitlines()]
    assert sorted(each["id"] for each in answers) == list(range(1, 11))
    assert not any(each["result"].get("isError") for each in answers)
    assert [each.event for each in board.list_events(by_agent="bob")] == ["done"]


@ON_A_FILE
def test_the_last_answer_is_written_to_its_end(board: Coordinator, command: Command) -> None:
    """To a client that has asked all and reads later, by a pipe that holds a part of the answer alone."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    asked = [*HELLO, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    with subprocess.Popen(
        [*COORDINATE, "mcp"],
        stdin=subprocess.PIPE,
        stdout=writes,
        text=True,
        cwd=command.folder,
        env=command.environment,
    ) as process:
        os.close(writes)
        assert process.stdin is not None
        process.stdin.write("".join(json.dumps(each) + "\n" for each in asked))
        process.stdin.close()
        with open(reads, encoding="utf-8") as pipe:
            first = json.loads(pipe.readline())
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
            last = json.loads(pipe.readline())
    assert (first["id"], last["id"], process.returncode) == (1, 2, 0)
    assert len(json.dumps(last)) > 4096


def test_whoever_asks_nothing_is_no_fault(tmp_path: Path) -> None:
    command = Command(str(tmp_path / "board.db"), folder_of(tmp_path))
    done = command("mcp", "--init")
    assert (done.status, done.out) == (0, "")


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """IF-01."""
    program = "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['mcp']; import coordinate.__main__ as m; m.main()"
    command = Command(str(tmp_path / "none.db"), folder_of(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=command.environment, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert json.loads(done.stderr)["code"] == "missing_extra"
    assert "coordinate-db[server]" in json.loads(done.stderr)["hint"]


def test_init_makes_and_upgrades_a_file_and_leaves_a_server_alone(tmp_path: Path, pg_url: str) -> None:
    where = tmp_path / "board.db"
    made = Raw(Command(str(where), folder_of(tmp_path)), "--init")
    made.say(*HELLO)
    assert made.hear()["result"]
    made.end()
    assert where.exists()
    addressed = tmp_path / "addressed.db"
    made = Raw(Command(f"sqlite:///{addressed}", tmp_path), "--init")
    made.say(*HELLO)
    assert made.hear()["result"]
    assert str(addressed) in json.loads(made.end()[1])["warning"]
    assert addressed.exists()
    refused = Raw(Command(pg_url, tmp_path), "--init")
    out, err = refused.end()
    assert (refused.process.returncode, out, json.loads(err)["code"]) == (6, "", "no_board")


def test_init_makes_no_second_board_where_one_was_set_up_elsewhere(tmp_path: Path) -> None:
    """Clients hand on few variables: what named the board in a person's shell is not there."""
    command = Command("", folder_of(tmp_path))
    (command.folder / ".coordinate").mkdir()
    refused = Raw(command, "--init")
    out, err = refused.end()
    assert (refused.process.returncode, out, json.loads(err)["code"]) == (6, "", "no_board")
    assert "--db" in json.loads(err)["hint"]
    assert not list((command.folder / ".coordinate").iterdir())


DEATHS = [
    ("stdin ends", "in a call"),
    ("stdin ends", "idle"),
    ("its parent is killed", "idle"),
    ("its parent is killed", "in a call"),
    ("nobody reads stdout", "in a call"),
    ("nobody reads stdout", "idle"),
]


@pytest.mark.parametrize(("death", "when"), DEATHS)
def test_it_ends_with_its_client_and_keeps_what_was_held(
    sqlite_template: Path, tmp_path: Path, death: str, when: str
) -> None:
    """IF-02. What it held runs on to its time; the board is free at once."""
    url = str(tmp_path / "board.db")
    Path(url).write_bytes(sqlite_template.read_bytes())
    command = Command(url, folder_of(tmp_path))
    with coordinate.connect(url, agent="alice") as board:
        board.dispatch(title="A", role="worker")
        # The client is a process of its own, so that it can be killed; it tells the server's number.
        parent = subprocess.Popen(
            [
                sys.executable,
                "-c",
                CLIENT,
                json.dumps([HELLO, when == "in a call"]),
                death,
                *COORDINATE,
                "mcp",
                "--agent",
                "bob",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=command.folder,
            env=command.environment,
        )
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert board.view(task="TASK-1").task.assigned_agent == "bob"
        if death == "its parent is killed":
            parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 30
        while runs(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
        parent.communicate()
        assert not runs(server)
        board.dispatch(title="B", role="worker")
        assert board.view(task="TASK-1").task.status == "IN_PROGRESS"
        assert [each.live for each in board.list_sessions(of_agent="bob")] == [True]


def test_a_signal_ends_it_though_its_client_stays(sqlite_template: Path, tmp_path: Path) -> None:
    """One while it listens, the other in a call that waits."""
    url = str(tmp_path / "board.db")
    Path(url).write_bytes(sqlite_template.read_bytes())
    command = Command(url, folder_of(tmp_path))
    clients = {number: Raw(command, "--agent", "bob") for number in (signal.SIGTERM, signal.SIGINT)}
    for number, client in clients.items():
        client.say(*HELLO, call(2, "list_my_tasks"))
        assert [client.hear()["id"], client.hear()["id"]] == [1, 2]
        if number == signal.SIGTERM:
            client.say(call(3, "claim_next_task", role="nobody", wait=50), call(4, "list_my_tasks"))
            assert client.hear()["id"] == 4
        client.process.send_signal(number)
        assert client.process.wait(30) == 128 + number
        assert client.end()[1] == ""


# Talks until the server holds a task, prints the server's number, and then does what the test says.
CLIENT = """
import json, os, subprocess, sys, time
(hello, calling), death, server = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
process = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(*messages):
    for message in messages: process.stdin.write(json.dumps(message) + "\\n")
    process.stdin.flush()
def call(number, tool, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
say(*hello); process.stdout.readline()
say(call(2, "claim_next_task", role="worker")); assert "TASK-1@1" in process.stdout.readline()
if calling:
    say(call(3, "claim_next_task", role="nobody", wait=50)); time.sleep(0.5)
print(process.pid, flush=True)
if death == "stdin ends": process.stdin.close()
if death == "nobody reads stdout": process.stdout.close()
if process.wait(): sys.exit(1)
time.sleep(60)
"""


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@ON_A_FILE
def test_profiles_that_do_not_exist_are_refused(command: Command) -> None:
    assert command("mcp", "--profile", "king").error["code"] == "usage"
    with pytest.raises(coordinate.errors.NotFound):
        tools_of("king")
