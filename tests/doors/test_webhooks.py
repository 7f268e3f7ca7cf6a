"""Webhooks as who receives them has it: a real server that answers, fails, hangs, and a deliverer that is killed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coordinate import Coordinator, config, errors, webhooks
from coordinate.inputs import Own
from tests.doors.command import Command
from tests.doors.server import serving
from tests.tables import rows, run

ON_A_FILE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Endpoint:
    """Receives webhooks: `answer` says the status of a request, and may take its time."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[str], int] = lambda path: 204
        self.instead: Callable[[BaseHTTPRequestHandler], None] | None = None
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.received.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if endpoint.instead is not None:
                    endpoint.instead(self)
                    return
                self.send_response(endpoint.answer(self.path))
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Not on the tests' output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def got(self, path: str = "/a") -> list[dict[str, Any]]:
        return [json.loads(body) for at, _, body in list(self.received) if at == path]

    def ids(self, path: str = "/a") -> list[str]:
        return [headers["webhook-id"] for at, headers, _ in list(self.received) if at == path]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def command(board_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return Command(board_url, tmp_path)


def configure(folder: Path, **tables: str) -> None:
    """A config.toml with webhooks: name = lines of its table."""
    (folder / ".coordinate").mkdir(mode=0o700, exist_ok=True)
    lines = [f'[webhooks.{name}]\nsecret_env = "HOOK_SECRET"\n{table}\n' for name, table in tables.items()]
    (folder / ".coordinate" / "config.toml").write_text("".join(lines))


@contextmanager
def delivering(command: Command) -> Iterator[Any]:
    process = command.started("webhook", "run", stderr=None)
    try:
        assert process.stdout is not None
        assert "delivering" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def begun(board: Coordinator, *names: str) -> None:
    """Until each webhook's place in the log is there: it begins at the head."""
    for name in names:
        until(lambda name=name: _is_there(board, name))


def _is_there(board: Coordinator, name: str) -> bool:
    try:
        board.ack(consumer=Own(f"webhook:{name}"), position=0)
    except errors.NotFound:
        return False
    return True


def until(true: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def let_go(board: Coordinator) -> None:
    """What the killed one held would end by its time: so that nobody has to wait for that."""
    for lease in board.list_leases(kind="lock", held_by=webhooks.AGENT):
        board.acting(agent=webhooks.AGENT).release_lock(name=Own(lease.resource), fence=lease.fence)


# --- what is delivered ------------------------------------------------------------------------------------------------


@ON_A_FILE
def test_wanted_events_come_in_order_and_signed(board: Coordinator, command: Command, endpoint: Endpoint) -> None:
    """Verified as the Standard Webhooks specification says, by nothing of ours."""
    some = f'url = "{endpoint.url}/a?k=1"\nevents = ["task.*", "note"]\nproject = "api"'
    configure(command.folder, some=some, all=f'url = "{endpoint.url}/all"')
    with delivering(command) as process:
        begun(board, "some", "all")
        board.dispatch(title="other", role="worker")
        board.dispatch(title="<b>é", role="worker", project="api")
        board.emit(event_type="build", project="api")
        board.emit(event_type="note", project="api", message="last")
        until(lambda: len(endpoint.got("/a?k=1")) == 2 and len(endpoint.got("/all")) == 4)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    created, note = endpoint.got("/a?k=1")
    assert (created["type"], created["data"]["payload"]["title"]) == ("task.created", "<b>é")
    assert created["timestamp"] == created["data"]["created_at"]
    assert (note["type"], note["data"]["message"]) == ("note", "last")
    assert [each["data"]["event"] for each in endpoint.got("/all")] == ["task.created", "task.created", "build", "note"]
    for _, headers, body in endpoint.received:
        told = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        signature = base64.b64encode(hmac.new(KEY, told, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{signature}"
        assert abs(time.time() - int(headers["webhook-timestamp"])) < 300
    assert len(set(endpoint.ids("/all"))) == 4


def test_what_was_given_up_is_not_sent_later(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that takes its time to be found: by then the same event, and the next one, may have been sent."""
    found, at_once = threading.Event(), socket.getaddrinfo
    waits = iter([found.wait])

    def late(*named: Any, **more: Any) -> Any:
        next(waits, lambda: None)()
        return at_once(*named, **more)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    monkeypatch.setattr(webhooks, "REQUEST_SECONDS", 0.2)
    hook = webhooks.Webhook("chat", f"{endpoint.url}/a", KEY)
    first, second = (webhooks._Message(name, "x", datetime.now(UTC), {}) for name in ("evt_1", "evt_2"))
    before = set(threading.enumerate())
    assert webhooks._send(hook, first) == "no answer within 0.2 s"
    (waiting,) = (each for each in threading.enumerate() if each not in before)
    monkeypatch.setattr(webhooks, "REQUEST_SECONDS", 30.0)
    assert (webhooks._send(hook, first), webhooks._send(hook, second)) == (None, None)
    found.set()
    waiting.join(30)
    assert endpoint.ids() == ["evt_1", "evt_2"]


@ON_A_FILE
def test_where_the_folder_is_refused_that_is_said(board_url: str, tmp_path: Path) -> None:
    configure(tmp_path, chat='url = "https://example.org/hook"')
    (tmp_path / ".coordinate").chmod(0o777)
    for words in (("test", "chat"), ("run",)):
        refusal = Command(board_url, tmp_path)("webhook", *words).error
        assert (refusal["code"], "can be written by others" in refusal["error"]) == ("permission_denied", True)


@ON_A_FILE
def test_who_fails_or_hangs_is_tried_again_and_holds_nobody_up(
    board: Coordinator, command: Command, endpoint: Endpoint
) -> None:
    """A redirect is no answer and is not followed. What fails stands in the log and in the list, with its reason."""
    healed = threading.Event()
    never = threading.Event()

    def answer(path: str) -> int:
        if path == "/hangs":
            never.wait(60)
        return 204 if path == "/good" or healed.is_set() else 302

    endpoint.answer = answer
    names = ("good", "bad", "hangs")
    configure(command.folder, **{name: f'url = "{endpoint.url}/{name}"\nevents = ["note"]' for name in names})
    with delivering(command):
        begun(board, *names)
        for number in range(3):
            board.emit(event_type="note", message=f"{number}")
        until(lambda: len(endpoint.got("/good")) == 3 and len(endpoint.ids("/bad")) >= 2 and endpoint.ids("/hangs"))
        assert len(set(endpoint.ids("/bad"))) == 1, "the same event, under the same id, and none behind it"
        stands = {each["name"]: each for each in command("webhook", "list").json}
        bad = stands["bad"]
        assert (bad["state"], bad["error"], bad["behind"] >= 3) == ("failing", "it answered 302", True)
        assert bad["to"] == endpoint.url
        assert bad["delivered_by_somebody"]
        assert stands["good"]["state"] == "delivering"
        healed.set()
        until(lambda: len(set(endpoint.ids("/bad"))) == 3)
        until(lambda: command("webhook", "list").json[1]["state"] == "delivering")
    never.set()
    assert not endpoint.got("/elsewhere")
    said = [each.event for each in board.list_events(ref="webhook:bad")]
    assert said == ["webhook.failing", "webhook.recovered"]


@ON_A_FILE
def test_who_fails_for_long_is_given_up_visibly_and_comes_back(
    board: Coordinator, command: Command, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda path: 500
    configure(command.folder, bad=f'url = "{endpoint.url}/a"\ngive_up_seconds = 1')
    with delivering(command):
        begun(board, "bad")
        board.emit(event_type="note")
        until(lambda: command("webhook", "list").json[0]["state"] == "given_up")
    assert command("webhook", "test", "bad").error["code"] == "not_delivered"
    endpoint.answer = lambda path: 204
    assert command("webhook", "test", "bad").json == {"webhook": "bad", "delivered": True}
    let_go(board)
    with delivering(command):
        until(lambda: command("webhook", "list").json[0]["state"] == "delivering")
    assert [each["type"] for each in endpoint.got()][-2:] == ["webhook.test", "note"]


@ON_A_FILE
def test_what_a_webhook_does_not_want_is_acknowledged_page_by_page(board: Coordinator, board_url: str) -> None:
    webhook = webhooks.Webhook("some", "http://127.0.0.1:9/", b"x" * 24, events=("wanted",))
    board.next_events(consumer=webhook.consumer)
    for _ in range(20):
        board.emit(event_type="note", message="x")
    run(
        board_url,
        "CREATE TABLE moves (n)",
        "CREATE TRIGGER moved AFTER UPDATE OF acknowledged ON event_cursors BEGIN INSERT INTO moves VALUES (1); END",
    )
    with webhooks.delivering(board, [webhook], lambda said: None):
        until(lambda: webhooks.standing(board, webhook).behind == 0)
    assert rows(board_url, "SELECT count(*) FROM moves") == [(1,)]


@ON_A_FILE
def test_events_that_were_pruned_unsent_are_told_as_a_gap(
    board: Coordinator, command: Command, endpoint: Endpoint
) -> None:
    configure(command.folder, a=f'url = "{endpoint.url}/a"')
    with delivering(command):
        begun(board, "a")
    let_go(board)
    board.emit(event_type="note", ttl_seconds=0)
    until(lambda: board.prune().events_deleted)
    board.emit(event_type="note", message="kept")
    with delivering(command):
        until(lambda: len(endpoint.got()) == 2)
    gap, kept = endpoint.got()
    assert (gap["type"], gap["data"]["lost"] >= 1, kept["data"]["message"]) == ("webhook.gap", True, "kept")


# --- who delivers -----------------------------------------------------------------------------------------------------


def test_a_deliverer_that_is_killed_before_it_acknowledges_delivers_again(
    board: Coordinator, command: Command, endpoint: Endpoint
) -> None:
    """At least once: SIGKILL between receipt and acknowledgement repeats one event, and loses none."""
    hold = threading.Event()

    def answer(path: str) -> int:
        if len(endpoint.got()) >= 2:
            hold.wait(60)
        return 204

    endpoint.answer = answer
    configure(command.folder, a=f'url = "{endpoint.url}/a"')
    with delivering(command) as process:
        begun(board, "a")
        for number in range(3):
            board.emit(event_type="note", message=str(number))
        until(lambda: len(endpoint.got()) == 2)
        process.kill()
        process.wait()
    hold.set()
    let_go(board)
    with delivering(command):
        until(lambda: any(each["data"]["message"] == "2" for each in endpoint.got()))
    assert [each["data"]["message"] for each in endpoint.got()] == ["0", "1", "1", "2"]
    assert len(set(endpoint.ids())) == 3


def test_of_two_one_delivers_and_the_other_goes_on_when_it_ends(
    board: Coordinator, board_url: str, command: Command, endpoint: Endpoint
) -> None:
    """A server delivers too; both have the same settings."""
    configure(command.folder, a=f'url = "{endpoint.url}/a"')
    with delivering(command) as process:
        begun(board, "a")
        with serving(board, board_url, command.folder) as server:
            for number in range(10):
                board.emit(event_type="note", message=str(number))
            until(lambda: len(notes(endpoint)) == 10)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143
            assert server.api("emit", event_type="note", message="10").status == 200
            until(lambda: len(notes(endpoint)) == 11)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(20)
    assert notes(endpoint) == [str(number) for number in range(11)]


def test_nobody_else_says_how_a_webhook_stands_nor_moves_it(
    board: Coordinator, command: Command, endpoint: Endpoint
) -> None:
    """A deliverer believes its own events, cursor and lock; whatever they hold, it goes on."""
    configure(command.folder, a=f'url = "{endpoint.url}/a"')
    with pytest.raises(errors.InvalidInput, match="belongs to the board"):
        board.acting(agent="webhooks")
    with pytest.raises(errors.InvalidInput, match="belongs to the board"):
        board.create_token(name="webhooks", role="worker")
    with pytest.raises(errors.InvalidInput, match="own events"):
        board.emit(event_type="webhook.failing", ref="webhook:a")
    own = board.acting(agent=webhooks.AGENT)
    for payload in ({"since": "soon"}, {"since": 5, "error": [1]}, {"since": "0001-01-01T00:00:00"}):
        own.emit(event_type="webhook.failing", ref="webhook:a", payload=payload)
        assert command("webhook", "list").json[0]["since"] is None
    with delivering(command):
        begun(board, "a")
        for refused in (
            lambda: board.ack(consumer="webhook:a", position=0),
            lambda: board.rewind(consumer="webhook:a", position=0),
            lambda: board.next_events(consumer=" webhook:a"),
            lambda: board.acquire_lock(name="webhook a"),
            lambda: board.release_lock(name="webhook a", fence=1),
        ):
            with pytest.raises(errors.InvalidInput, match="belong to the board"):
                refused()
        board.emit(event_type="note", message="kept")
        until(lambda: notes(endpoint) == ["kept"])


def test_what_nobody_foresaw_does_not_end_a_deliverer(
    board: Coordinator, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = webhooks.Webhook("a", f"{endpoint.url}/a", KEY)
    said: list[str] = []
    real, failed = webhooks._last_state, threading.Event()

    def fails_once(*given: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise KeyError(SECRET)
        return real(*given)

    monkeypatch.setattr(webhooks, "_last_state", fails_once)
    with webhooks.delivering(board, [webhook], said.append):
        begun(board, "a")
        board.emit(event_type="note", message="1")
        until(lambda: notes(endpoint) == ["1"])
    assert said == ["a: KeyError came between; it is tried again"]


@ON_A_FILE
def test_an_answer_that_repeats_the_request_tells_nobody_address_and_signature(
    board: Coordinator, endpoint: Endpoint
) -> None:
    def echo(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(f"{handler.path} {handler.headers['webhook-signature']}\r\n\r\n".encode())

    endpoint.instead = echo
    with pytest.raises(errors.NotDelivered) as told:
        webhooks.try_out(webhooks.Webhook("a", f"{endpoint.url}/hidden", KEY))
    assert told.value.message == "a was not delivered: no answer: BadStatusLine"


def notes(endpoint: Endpoint) -> list[str]:
    return [each["data"]["message"] for each in endpoint.got() if each["type"] == "note"]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "about"),
    [
        ({}, "url"),
        ({"url": "https://x/", "secret_env": "S", "color": 1}, "url"),
        *(
            ({"url": url, "secret_env": "S"}, "url")
            for url in (
                "file:///etc/passwd",
                "https://",
                "https://me:pw@x/",
                "https://x/\r\nA: b",
                "https://x:99999/",
                7,
            )
        ),
        ({"url": "https://x/"}, "secret"),
        ({"url": "https://x/", "secret_env": "NONE"}, "$NONE"),
        ({"url": "https://x/", "secret_env": "SHORT"}, "$SHORT"),
        ({"url": "https://x/", "secret_file": "open"}, "can be read by others"),
        ({"url": "https://x/", "secret_file": "missing"}, "cannot be read"),
        ({"url": "https://x/", "secret_env": "S", "secret_file": "s"}, "secret"),
        ({"url": "https://x/", "secret_env": "S", "events": "task.*"}, "events"),
        ({"url": "https://x/", "secret_env": "S", "give_up_seconds": 0}, "give_up_seconds"),
    ],
)
def test_settings_that_are_not_right_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], about: str
) -> None:
    monkeypatch.setenv("S", SECRET)
    monkeypatch.setenv("SHORT", "whsec_" + base64.b64encode(b"short").decode())
    (tmp_path / "open").write_text(SECRET)
    (tmp_path / "open").chmod(0o644)
    place = config.Place("board.db", "test", tmp_path, {"webhooks": {"chat": table}})
    with pytest.raises(errors.InvalidInput) as refused:
        webhooks.configured(place)
    assert about in refused.value.message
    assert "chat" in refused.value.message
    assert SECRET not in str(refused.value.as_dict())


def test_a_secret_in_a_file_of_its_own_is_used_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "chat.secret").write_text(SECRET + "\n")
    (tmp_path / "chat.secret").chmod(0o600)
    table = {"url": "https://x/path", "secret_file": "chat.secret"}
    (found,) = webhooks.configured(config.Place("board.db", "test", tmp_path, {"webhooks": {"chat": table}}))
    assert found.secret == KEY
    assert "path" not in repr(found)
    assert repr(KEY) not in repr(found)
