"""`coordinate serve` from outside: its gate, its API, its streams, many clients at once, and its sudden end."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

import coordinate
from coordinate import Coordinator
from coordinate.http import gate, seats, transports, wire
from coordinate.http.api import document
from coordinate.http.app import Application
from coordinate.http.gate import Rules, names_of
from coordinate.http.serve import NAME
from coordinate.http.signins import OF_ONE_MAX, SignIns
from coordinate.mcp import calls
from coordinate.operations import operations
from coordinate.plans import PlannedTask
from coordinate.records import Token
from tests.clock import age
from tests.doors.client import ERAS, Agent, Refused, over_http, run
from tests.doors.command import Command
from tests.doors.server import Reply, Server, serving, within
from tests.tables import connect, dump, is_postgres
from tests.tables import run as run_on

ON_A_FILE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def server(board: Coordinator, board_url: str, tmp_path: Path) -> Iterator[Server]:
    with serving(board, board_url, tmp_path / "served") as started:
        yield started


# --- the gate ---------------------------------------------------------------------------------------------------------

DISPATCH = {"title": "T", "role": "worker"}


@ON_A_FILE
def test_foreign_names_tokens_and_roles_change_nothing(server: Server, board: Coordinator, board_url: str) -> None:
    """IF-09. Every line is refused with 4xx, at every door, and the board stays as it was."""
    expired = board.create_token(name="old", role="admin", ttl_seconds=60).secret
    age(board_url, 61)
    revoked = board.create_token(name="gone", role="admin")
    board.revoke_token(token=revoked.token.id)
    cookie = server.sign_in(server.secrets["admin"])
    admin, worker, port = server.secrets["admin"], server.secrets["worker"], server.host.rsplit(":", 1)[1]
    own = f"http://{server.host}"
    headers: list[tuple[int, str | None, dict[str, str]]] = [
        *((403, admin, {"Host": host}) for host in ("evil.example", f"evil.example:{port}", "127.0.0.1")),
        *((403, admin, {"Host": f"{host}:{port}"}) for host in ("127.0.0.1.evil.example", "0.0.0.0", "127.0.0.2", "")),
        *((403, admin, {"Origin": origin}) for origin in ("http://evil.example", "null", "", f"https://{server.host}")),
        *((403, admin, {"Origin": f"{own}{end}"}) for end in (".evil.example", "@evil.example", "/x", "0")),
        *((403, admin, {"Sec-Fetch-Site": site}) for site in ("cross-site", "same-site", "other")),
        (403, admin, {"Origin": own, "Sec-Fetch-Site": "cross-site"}),
        *((401, secret, {}) for secret in (None, "", "wrong", expired, revoked.secret, admin[:-1], f"{admin}x")),
        (401, None, {"Authorization": f"Basic {admin}"}),
        (401, None, {"Cookie": f"{cookie[:-1]}"}),
        (401, None, {"Cookie": f"{cookie.partition('=')[0]}={admin}"}),
        (401, cookie.partition("=")[2], {}),
        (403, None, {"Cookie": cookie}),
        (403, None, {"Cookie": cookie, "Origin": own}),
        (403, None, {"Cookie": cookie, "Origin": own, "X-CSRF-Token": "0" * 64}),
        (415, admin, {"Content-Type": "text/plain"}),
        (415, admin, {"Content-Type": "application/x-www-form-urlencoded"}),
    ]
    before, wrong = dump(board_url), []
    for status, token, said in headers:
        reply = server("POST", "/api/dispatch", DISPATCH, token=token, **said)
        if reply.status != status:
            wrong.append(f"{said} {token}: {reply.status} {reply.body[:100]!r}")
        if status != 415 and (again := server("POST", "/mcp", {}, token=token, **said).status) != status:
            wrong.append(f"/mcp {said} {token}: {again}")
        if (
            status != 415
            and "Cookie" not in said
            and server("GET", "/events?after=0", token=token, **said).status != status
        ):
            wrong.append(f"/events {said} {token}")
    methods = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
    answered = {method: server(method, "/api/dispatch?title=T&role=worker", token=admin).status for method in methods}
    assert set(answered.values()) == {405}
    for role in ("worker", "reviewer", "manager", "human"):
        for name, operation in operations().items():
            if not operation.allows(role) and server.api(name, role).status != 403:
                wrong.append(f"a {role} called {name}")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for path in ("/api/openapi.json", "/mcp", "/events", "/metrics", "/enter?key=x", "/do/respond", "/leave"):
        reply = server("GET", path, token=admin, Accept="text/html", **link)
        if reply.status != 403 or not reply.json["hint"]:
            wrong.append(f"a link to {path}: {reply.status}")
    others = ({"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors"}, {"Accept": "*/*"}, {"Origin": "null"})
    links: list[dict[str, str]] = [{"Accept": "text/html"} | link | said for said in others]
    wrong += [f"a view for {said}" for said in links if server("GET", "/tasks", token=admin, **said).status != 403]
    assert wrong == []
    assert dump(board_url) == before
    reply = server("GET", "/api/dispatch", token=admin)
    assert (reply.json["code"], reply.headers["allow"]) == ("method_not_allowed", "POST")
    assert server("POST", "/api/dispatch", DISPATCH, token=admin, Origin=own).status == 200
    assert server("POST", "/api/dispatch", DISPATCH, token=worker).status == 403


@ON_A_FILE
def test_a_browser_enters_by_the_printed_link_and_shows_two_proofs(server: Server, board: Coordinator) -> None:
    """IF-09."""
    path = str(server.told["sign_in"]).removeprefix(f"http://{server.host}")
    assert server("GET", "/enter?key=wrong").status == 401
    entered = server("GET", path)
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie, _, attributes = entered.headers["set-cookie"].partition(";")
    name, _, sign_in = cookie.partition("=")
    assert name == f"coordinate_{server.host.rpartition(':')[2]}"
    assert sign_in not in path
    assert {"httponly", "samesite=lax"} <= {each.strip().lower() for each in attributes.split(";")}
    proof = server("GET", "/", Cookie=cookie).json["csrf"]
    assert server("GET", "/", token=server.secrets["human"]).json["csrf"] is None
    for other in ('prefs={"theme":"dark"}', "flag", "a b=c", "na\u00efve=1", 'x="no end', "=", "x=\\"):
        assert server("GET", "/", Cookie=f"{other}; {cookie}; {other}").status == 200, "another program's cookie"
    shown = {"Cookie": cookie, "Origin": f"http://{server.host}"}
    assert server("POST", "/api/dispatch", DISPATCH, **shown).status == 403
    assert server("POST", "/api/dispatch", DISPATCH, Cookie=cookie, X_CSRF_Token=proof).status == 403
    assert server("POST", "/api/dispatch", DISPATCH, **shown, X_CSRF_Token=proof).status == 200
    form = {**shown, "Content-Type": "application/x-www-form-urlencoded"}
    assert server("POST", "/leave", b"csrf=no", **form).status == 403
    again = server("GET", path, Cookie=f"{name}={sign_in}").headers["set-cookie"].partition(";")[0]
    assert again != cookie, "whoever had set the cookie before does not share this sign-in"
    assert server("GET", "/", Cookie=cookie).status == 401
    form["Cookie"], other = again, server.sign_in(server.secrets["human"])
    proof = server("GET", "/", Cookie=again).json["csrf"]
    assert server("GET", "/", Cookie=other).json["csrf"] != proof
    assert server("POST", "/leave", f"a=1&csrf={proof}".encode(), **form).status == 303
    assert server("GET", "/", Cookie=again).status == 401
    assert server("GET", "/", Cookie=other).status == 200
    token = f"token={server.secrets['human']}".encode()
    assert server("POST", "/enter", token, Content_Type="application/x-www-form-urlencoded").status == 303
    assert board.view(task="TASK-1").task.created_by != "system"


@ON_A_FILE
def test_who_signed_in_stays_so_over_a_restart_and_no_longer_than_that(server: Server, board: Coordinator) -> None:
    """What is kept in the folder lets nobody in who reads it, and nothing that came with a checkout is believed."""
    folder = server.command.folder / ".coordinate"
    folder.mkdir()
    again(server)  # the first one took any port, and keeps nothing
    made = board.create_token(name="temp", role="human")
    link = str(server.told["sign_in"]).removeprefix(f"http://{server.host}")
    owner = server("GET", link).headers["set-cookie"].partition(";")[0]
    stays, leaves, ends = (server.sign_in(each) for each in (server.secrets["human"],) * 2 + (made.secret,))
    (kept,) = folder.iterdir()
    assert kept.name == f"signins-127.0.0.1-{server.host.rpartition(':')[2]}"
    assert kept.stat().st_mode & 0o777 == 0o600
    words = kept.read_text()
    for secret in (server.secrets["human"], made.secret, *(each.partition("=")[2] for each in (owner, stays, ends))):
        assert secret not in words
    proof = server("GET", "/", Cookie=leaves).json["csrf"]
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{server.host}"}
    kept.with_name(f"{kept.name}.partial").mkdir()  # so it cannot be written
    stuck = server("POST", "/leave", f"csrf={proof}".encode(), Cookie=leaves, **form, Accept="text/html")
    assert (stuck.status, b"you are still signed in" in stuck.body) == (503, True)
    kept.with_name(f"{kept.name}.partial").rmdir()
    assert server("POST", "/leave", f"csrf={proof}".encode(), Cookie=leaves, **form).status == 303
    again(server)
    board.revoke_token(token=made.token.id)
    assert [server("GET", "/", Cookie=each).status for each in (owner, stays, leaves, ends)] == [200, 200, 401, 401]
    assert server("GET", link).status == 401
    assert server("POST", "/api/dispatch", DISPATCH, Cookie=stays, X_CSRF_Token=proof, **form).status == 403
    sign_in = stays.partition("=")[2]
    assert SignIns(kept).secret(sign_in) == server.secrets["human"]
    kept.chmod(0o666)
    assert SignIns(kept).secret(sign_in) == ""
    kept.chmod(0o600)
    for damaged in (
        '{"a": 1}',
        "[" * 100_000,
        '{"a": ["x", "", 1' + "0" * 400 + "]}",
        '{"a": ["x", "z", 1]}',
        '{"a": ["x", 7, 1]}',
        "\ud800",
        "",
        "\0",
    ):
        kept.write_bytes(damaged.encode("utf-8", "surrogatepass"))
        assert SignIns(kept).secret(sign_in) == "", damaged[:20]


def test_a_sign_in_of_the_owner_is_of_one_board_and_one_owner_and_ends_or_says_that_it_does_not(tmp_path: Path) -> None:
    kept = tmp_path / "signins"
    first = SignIns(kept, "key", "hugo of this")
    owner, other = first.begin("key", 60), first.begin("a token", 60)
    again = SignIns(kept, "new key", "hugo of this")
    assert (again.secret(owner), again.secret(other)) == ("new key", "a token")
    for of in ("ada of this", "hugo of that"):
        elsewhere = SignIns(kept, "new key", of)
        assert (elsewhere.secret(owner), elsewhere.secret(other)) == ("", "a token")
    (tmp_path / "signins.partial").mkdir()  # so it cannot be written
    (tmp_path / "signins.partial" / "x").touch()
    late = again.begin("another", 60)
    assert again.end(late), "what was never written ends with the process, or sooner"
    assert not again.end(other)
    assert again.secret(other) == "a token"
    (tmp_path / "signins.partial" / "x").unlink()
    (tmp_path / "signins.partial").rmdir()
    assert again.end(other)
    assert SignIns(kept, "new key", "hugo of this").secret(other) == ""


def test_as_many_sign_ins_of_one_token_last_as_are_promised_and_another_ends_the_oldest() -> None:
    sign_ins = SignIns()
    other = sign_ins.begin("another token", 60)
    begun = [sign_ins.begin("a token", 60) for _ in range(OF_ONE_MAX)]
    assert all(sign_ins.secret(each) for each in (other, *begun))
    begun.append(sign_ins.begin("a token", 60))
    assert [bool(sign_ins.secret(each)) for each in begun] == [False] + OF_ONE_MAX * [True]
    assert sign_ins.secret(other)


def again(server: Server) -> None:
    server.kill()
    server.start_again()


@ON_A_FILE
@pytest.mark.parametrize("host", ["127.0.0.2", "0.0.0.0", "0:0:0:0:0:0:0:1"])
def test_another_address_needs_a_token_and_then_names(
    board: Coordinator, board_url: str, tmp_path: Path, host: str
) -> None:
    """It answers to no name that nobody said, so it does not begin."""
    call = Command(board_url, tmp_path)
    assert call("serve", "--host", host, "--port", "0").error["field"] == "host"
    board.create_token(name="alice", role="worker")
    assert call("serve", "--host", host, "--port", "0").error["field"] == "name"


@ON_A_FILE
def test_every_answer_forbids_frames_scripts_and_guesses(server: Server) -> None:
    """IF-08. Also errors; what agents wrote comes as JSON."""
    token = server.secrets["admin"]
    nasty = "<script>alert(1)</script>\u2028</textarea>{{7*7}}"
    server.api("dispatch", "admin", title=nasty[:25], role="worker", body=nasty)
    replies = [
        server("GET", path, token=token) for path in ("/", "/healthz", "/metrics", "/nothing", "/api/openapi.json")
    ]
    replies += [
        server("GET", "/", Host="evil.example"),
        server.api("view", task="TASK-1"),
        server.api("view", task="x"),
    ]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "html" not in reply.headers["content-type"]
        assert "server" not in reply.headers
    assert replies[-2].json["task"]["body"] == nasty


@ON_A_FILE
def test_bodies_and_rates_have_their_limits(board: Coordinator, board_url: str, tmp_path: Path) -> None:
    with serving(board, board_url, tmp_path, "--rate", "20") as server:
        token = server.secrets["admin"]
        assert server("POST", "/api/dispatch", b"x" * (4 * 1024 * 1024 + 1), token=token).status == 413
        assert server("POST", "/api/dispatch", b"{}", token=token, Content_Length="99999999999").status == 413
        for body in (b"", b"[]", b"{", b"null", b"\xff", b'{"title": NaN}', b"[" * 100_000):
            assert server("POST", "/api/dispatch", body, token=token).status in (400, 422)
        found = met_limits(server, "/", server.secrets["worker"], 120, rate=20)
        assert found[200] >= 40
        assert set(found) <= {200, 429}
        for path in ("/", "/enter?key=no"):
            met_limits(server, path, "no", 20, rate=2)
        assert server("GET", "/", token=server.secrets["reviewer"]).status == 200
        assert server.sign_in(server.secrets["admin"]), "whoever shows a token is not kept out by others who have none"


def met_limits(server: Server, path: str, token: str, requests: int, *, rate: float) -> Counter[int]:
    """What so many requests are answered with: no more get through than the rate allows in the time that they take."""
    began = time.monotonic()
    found = Counter(server("GET", path, token=token).status for _ in range(requests))
    assert requests - found[429] <= rate * (2 + time.monotonic() - began) + 1
    return found


@ON_A_FILE
def test_what_is_long_to_read_or_to_tell_counts_as_many(board: Coordinator) -> None:
    """Whoever else is served waits for it."""
    board.dispatch_plan(plan=[PlannedTask(key=f"{key}", title="T", body="x" * 100_000) for key in range(40)])
    secrets = [board.create_token(name=name, role="worker").secret for name in ("alice", "bob")]

    async def ask() -> None:
        async with within(Application(board, Rules(frozenset({"here"}), rate=0.5))) as server:
            for secret, said in zip(secrets, ({"role": "x" * 4_000_000}, {"limit": 100}), strict=True):
                told = [await server("POST", "/api/list_tasks", said, token=secret) for _ in range(2)]
                assert [each.status for each in told] in ([200, 429], [422, 429])
                assert int(told[1].headers["retry-after"]) > 10

    anyio.run(ask)


@ON_A_FILE
def test_what_a_stranger_sends_is_small_before_anything_is_made_of_it(server: Server) -> None:
    """Reading a form of megabytes would let everybody else wait."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    token = f"token={server.secrets['human']}"
    for body in (f"{token}&a=" + "%41" * 10_000, f"{token}&{'a&' * 100}"):
        assert server("POST", "/enter", body.encode(), **form).status == 413
    assert server("GET", f"/enter?{token}&{'a&' * 100}").status == 413
    assert server("GET", f"/enter?{token}&{'a' * 20_000}").status == 413
    assert server("POST", "/enter", f"{token}&to=/tasks?q={'a' * 2_000}".encode(), **form).status == 303
    for path in ("/healthz", "/page.css"):
        assert server("GET", path, b"x" * 20_000, Content_Length="20000").status == 413
    words = "\u20ac" * 10_000
    typed = urlencode({"text": words})
    assert words in server("POST", "/do/respond", typed.encode(), **form).body.decode(), "what was typed is not lost"
    assert server("POST", "/do/respond", f"{typed}&a={'%41' * 20_000}".encode(), **form).status == 413
    shown = form | {"Cookie": server.sign_in(server.secrets["human"]), "Origin": f"http://{server.host}"}
    for headers in (shown, form | {"token": server.secrets["human"]}):
        assert server("POST", "/do/respond", b"a&" * 100, **headers).status == 413


@ON_A_FILE
def test_who_connects_and_says_nothing_takes_nobodys_place(
    board: Coordinator, board_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Requests that do not arrive are cut, the oldest for the next when there is no room; the log does not grow."""
    with serving(board, board_url, tmp_path / "s", within="ulimit -n 300") as server:
        port, lines = int(server.host.rpartition(":")[2]), []
        head = f"POST /enter HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 9\r\n\r\n".encode()
        for said in (b"", b"GET / HT", head + b"token=") * 104:
            lines.append(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):
                lines[-1].sendall(said)
        assert server("GET", "/healthz").status == 200
        assert server("GET", "/", token=server.secrets["worker"]).status == 200
        for line in lines[-90:]:  # these were not waited for: room was made by the oldest
            with pytest.raises(BlockingIOError):
                line.recv(1, socket.MSG_DONTWAIT)
        for line in lines:
            line.close()
    assert len(capfd.readouterr().err) < 5_000


def test_who_sends_half_a_request_behind_another_or_reads_no_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither takes a place for ever; who reads slowly, but does, is served to the end."""
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(wire, "UNREAD_SECONDS", 1.5)
    monkeypatch.setattr(wire, "SEND_BUFFER", 8_192)

    async def big(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 3_000_000 if scope["path"] == "/big" else b""})

    listening = socket.create_server(("127.0.0.1", 0))
    asked = uvicorn.Config(big, http=wire.Connection, lifespan="off", log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(asked)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    running.start()

    def line(said: str) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(20)
        made.connect(listening.getsockname())
        made.sendall(said.encode())
        return made

    get = "GET {} HTTP/1.1\r\nHost: h\r\n\r\n"
    half = line(get.format("/") + "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
    deaf, slow = line(get.format("/big")), line(get.format("/big"))
    came = 0
    for _ in range(10):
        came += len(slow.recv(60_000))
        time.sleep(0.2)
    while came < 3_000_000:
        more = len(slow.recv(1_000_000))
        assert more, came
        came += more
    with suppress(ConnectionResetError):
        while half.recv(1_000):
            pass
    until = time.monotonic() + 60
    while len(server.server_state.connections) > 1 and time.monotonic() < until:  # who reads at last is deaf no more
        time.sleep(0.05)
    heard = 0
    with suppress(ConnectionResetError):
        while more := len(deaf.recv(1_000_000)):
            heard += more
    assert heard < 3_000_000
    server.should_exit = True
    for each in (half, deaf, slow):
        each.close()
    running.join(20)


def test_beyond_this_machine_it_needs_tokens_and_a_name(tmp_path: Path, sqlite_template: Path) -> None:
    """IF-09."""
    url = str(shutil.copy(sqlite_template, tmp_path / "board.db"))
    command = Command(url, tmp_path)
    anywhere = ("serve", "--host", "0.0.0.0", "--port", "0")
    assert command(*anywhere).error["field"] == "host"
    assert command("serve", "--https", "--port", "0").error["field"] == "name"
    with coordinate.connect(url, agent="alice") as board:
        board.create_token(name="bob", role="worker")
        assert command(*anywhere).error["field"] == "name"
        for name in ("http://board.example", "board.example/", "b\u00f6rd.example", "a b", ":80", ""):
            assert not NAME.fullmatch(name)
        assert command(*anywhere, "--name", "https://board.example").error["field"] == "name"
        for name in ("board.example", "Board.example:8787", "127.0.0.1:80", "[::1]:80", "my_host-1"):
            assert NAME.fullmatch(name)
        with serving(board, url, tmp_path / "s", *anywhere[1:3], "--name", "board.example:80") as server:
            assert server.told == {
                "url": "http://board.example:80/",
                "mcp": "http://board.example:80/mcp",
                "sign_in": None,
            }


def test_whoever_has_many_addresses_frees_nobody_from_what_they_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BUCKETS_MAX", 3)
    rates = gate.Rates(1)
    for other in range(5):
        with suppress(gate.Refused):
            rates.take("greedy", cost=100)
        rates.take(f"other {other}")
    with pytest.raises(gate.Refused):
        rates.take("greedy")
    mine = ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2", "fe80::1%eth0")
    assert len({gate.address_of({"client": (address, 1)}) for address in mine}) == 5


def test_the_port_that_clients_leave_out_is_not_needed() -> None:
    """What is printed is an address under which it answers."""
    assert {"127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80"} <= names_of("::1", 80, "http")
    assert names_of("0.0.0.0", 443, "https", ["A.example:443"]) == {"a.example:443", "a.example"}
    for port, scheme in ((443, "http"), (80, "https"), (8080, "http")):
        assert all(name.endswith(f":{port}") for name in names_of("127.0.0.1", port, scheme))


@ON_A_FILE
@pytest.mark.parametrize("whole", ["Content-Length: 500", "Transfer-Encoding: chunked"])
def test_a_request_that_was_cut_off_changes_nothing(
    server: Server, board: Coordinator, board_url: str, whole: str
) -> None:
    """What has arrived of it may be a sound request of its own: half of an answer is another answer."""
    asked = board.ask(
        title="Delete it?", action_owner="decision", impact="i", options=[{"label": "yes"}, {"label": "no"}]
    ).ask.id
    form = f"ask={asked}&kind=answer&text=Delete+it".encode()
    sent = {
        "/api/dispatch": ("admin", "application/json", b'{"title": "T", "role": "worker"}'),
        "/do/respond": ("human", "application/x-www-form-urlencoded", form),
    }
    for role in ("admin", "human"):
        server("GET", "/", token=server.secrets[role])  # its use is noted
    before = dump(board_url)
    for path, (role, kind, body) in sent.items():
        head = f"POST {path} HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.secrets[role]}\r\n"
        raw = b"%x\r\n%s\r\n" % (len(body), body) if "chunked" in whole else body
        for end in (socket.SHUT_RDWR, socket.SHUT_WR):
            with socket.create_connection(("127.0.0.1", int(server.host.rsplit(":", 1)[1]))) as line:
                line.sendall(f"{head}Content-Type: {kind}\r\n{whole}\r\n\r\n".encode() + raw)
                time.sleep(0.3)
                line.shutdown(end)
                with suppress(OSError):
                    line.recv(100)
        time.sleep(0.5)
    assert dump(board_url) == before


# --- the API ----------------------------------------------------------------------------------------------------------


def test_the_api_does_a_workers_loop_in_the_tokens_name(server: Server) -> None:
    task = server.api("dispatch", "manager", title="T", role="worker", scopes=["src"]).json["task"]
    assert task["created_by"] == "max"
    session = server.api("register").json
    assert (session["agent"], server.api("register", name="eve").status) == ("wendy", 422)
    shown = {"token": server.secrets["worker"], "Coordinate_Session": session["id"]}
    claim = server("POST", "/api/claim_next", {"role": "worker"}, **shown).json
    assert (claim["task"]["assigned_agent"], claim["task"]["session_id"]) == ("wendy", session["id"])
    assert server.api("complete", "manager", handle=claim["handle"]).json["code"] == "held_by_another"
    assert [each["claim"] for each in server.api("mine").json] == [claim["handle"]]
    theirs = server("POST", "/api/mine", {}, token=server.secrets["manager"], Coordinate_Session=session["id"])
    assert (theirs.status, theirs.json["field"]) == (422, "session")
    assert server("POST", "/api/complete", {"handle": claim["handle"], "review": True}, **shown).status == 200
    assert server.api("approve", "reviewer", task="TASK-1").json["status"] == "DONE"
    assert server.api("mine").json == []
    nowhere = server.api("view", task="TASK-9")
    assert (nowhere.status, nowhere.json["hint"]) == (404, "list_tasks shows what there is")
    assert server.api("claim_next", role="worker").json is None
    for moment, status in (("2999-01-01T00:00:00Z", 200), ("2999-01-01T00:00:00", 422), ("soon", 422), (1, 422)):
        assert server.api("dispatch", "manager", title="L", role="worker", not_before=moment).status == status
    plan = [{"key": "a", "title": "A"}, {"key": "b", "title": "B", "depends_on": ["a"]}]
    assert [each["task"]["title"] for each in server.api("dispatch_plan", "manager", plan=plan).json] == ["A", "B"]
    assert server.api("dispatch_plan", "manager", plan=[{"key": "a"}]).status == 422


@ON_A_FILE
def test_the_api_withstands_what_a_generator_makes_of_its_description(server: Server, tmp_path: Path) -> None:
    """No 5xx, no status, type or shape of an answer that the OpenAPI document does not name."""
    token = server.secrets["admin"]
    assert server("GET", "/api/openapi.json", token=token).json == json.loads(json.dumps(document()))
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [str(Path(sys.executable).with_name("st")), "run", f"http://{server.host}/api/openapi.json"]
    command += ["--checks", checks, "--header", f"Authorization: Bearer {token}", "--no-color", "--seed", "1"]
    command += ["--max-examples", "3", "--phases", "fuzzing", "--workers", "4", "--max-failures", "5"]
    for waits in ("wait_for", "claim_next", "next_events", "acquire_lock"):
        command += ["--exclude-operation-id", waits]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-6_000:]
    assert server.process.poll() is None


# --- MCP --------------------------------------------------------------------------------------------------------------


def test_agents_do_their_loop_over_http_each_as_its_token_says(server: Server, board: Coordinator, engine: str) -> None:
    era = ERAS[engine]

    async def loop() -> None:
        async with (
            over_http(server.mcp, server.secrets["manager"], era=era) as manager,
            over_http(server.mcp, server.secrets["worker"], era=era) as worker,
            over_http(server.mcp, server.secrets["reviewer"], era=era) as reviewer,
            over_http(f"{server.mcp}?profile=all", server.secrets["worker"], era=era, name="sly") as sly,
        ):
            waited: list[Any] = []

            async def wait() -> None:
                waited.append(await worker("wait_for", role="worker", wait=50))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.sleep(0.3)
                await manager("dispatch_task", title="T", role="worker", scopes=["src"])
            assert waited[0]["work"] is True
            claim = await worker("claim_next_task", role="worker")
            assert claim["task"]["assigned_agent"] == "wendy"
            await worker("log_progress", handle=claim["handle"], note="half")
            await worker("complete_task", handle=claim["handle"], review=True)
            await reviewer("claim_review")
            assert (await reviewer("approve_task", task="TASK-1"))["status"] == "DONE"
            told = await sly.refused("call_operation", name="dispatch", arguments=DISPATCH)
            assert told["code"] == "not_allowed"
            told = await sly.refused("call_operation", name="list_tokens")
            assert told["code"] == "not_allowed"

    run(loop)
    assert {each.agent for each in board.list_sessions()} == {"max", "wendy", "rita"}
    assert board.view(task="TASK-1").task.created_by == "max"


@ON_A_FILE
def test_a_session_of_a_transport_is_its_tokens_alone(server: Server) -> None:
    async def loop() -> None:
        async with over_http(server.mcp, server.secrets["worker"], era="legacy") as worker:
            await worker("list_my_tasks")
            session = worker.client.session
            assert session is not None
        shown = {"Accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        opened = server(
            "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
            token=server.secrets["worker"], **shown,
        )  # fmt: skip
        theirs = {"Mcp_Session_Id": opened.headers["mcp-session-id"], **shown}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert server("POST", "/mcp", ping, token=server.secrets["manager"], **theirs).status == 404
        assert server("POST", "/mcp", ping, token=server.secrets["worker"], **theirs).status == 200
        # Nor does a token go on with another agent's session.
        begun = server.api("register").json["id"]
        async with over_http(server.mcp, server.secrets["manager"], era="legacy", Coordinate_Session=begun) as max_:
            assert (await max_.refused("show_status"))["field"] == "session"

    run(loop)


@ON_A_FILE
def test_whose_session_was_ended_goes_on_as_the_refusal_says(server: Server, board: Coordinator) -> None:
    async def loop() -> None:
        for era, headers in (("legacy", {}), ("auto", {"Coordinate_Client": "laptop"})):
            async with over_http(server.mcp, server.secrets["worker"], era=era, **headers) as worker:
                await worker("claim_next_task", role="worker")
                board.acting(agent="wendy", session=board.list_sessions()[0].id).end_session()
                told = await worker.refused("claim_next_task", role="worker")
                assert told["hint"].startswith("call again")
                assert await worker("claim_next_task", role="worker") is None
        begun = server.api("register").json["id"]
        board.acting(agent="wendy", session=begun).end_session()
        for over in (begun, "s-0"):
            async with over_http(server.mcp, server.secrets["worker"], era="auto", Coordinate_Session=over) as worker:
                assert "header Coordinate-Session" in (await worker.refused("claim_next_task", role="worker"))["hint"]

    run(loop)
    # And over the API, where the hint names `register`, also for who shows the old session still, or one unknown.
    shown = {"token": server.secrets["worker"], "Coordinate_Session": "s-0"}
    assert server("POST", "/api/mine", {}, **shown).json["hint"] == "begin one: register"
    shown["Coordinate_Session"] = server("POST", "/api/register", {}, **shown).json["id"]
    assert server("POST", "/api/end_session", {}, **shown).status == 200
    assert server("POST", "/api/claim_scopes", {"patterns": ["src"]}, **shown).json["hint"] == "begin another: register"
    assert server("POST", "/api/register", {}, **shown).json["live"]


@ON_A_FILE
def test_two_tokens_of_one_agent_are_two_holders_also_under_one_name(server: Server, board: Coordinator) -> None:
    """Each is known by its token and its name, and found again so after a restart."""
    secrets = [server.secrets["worker"], board.create_token(name="wendy", role="worker").secret]

    async def claim(*paths: str) -> list[bool]:
        granted = []
        for secret, path in zip(secrets, paths, strict=True):
            async with over_http(server.mcp, secret, era="auto", Coordinate_Client="laptop") as wendy:
                granted.append((await wendy("claim_scopes", patterns=[path]))["granted"])
        return granted

    async def loop() -> None:
        assert await claim("src", "src/a") == [True, False]
        await anyio.to_thread.run_sync(lambda: (server.kill(), server.start_again()))
        assert await claim("src/a", "src/b") == [True, False]

    run(loop)
    assert len(board.list_sessions()) == 2


BOTH = "application/json, text/event-stream"


@ON_A_FILE
def test_a_token_that_begins_one_session_after_another_ends_its_own(
    board: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a transport, the one that was used longest ago; all tokens share those that there are."""
    monkeypatch.setattr(transports, "OF_ONE_MAX", 2)
    mine, other = (board.create_token(name=name, role="worker").secret for name in ("alice", "bob"))

    me = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

    async def crowd() -> None:
        async with within(Application(board, Rules(frozenset({"here"})))) as server:

            async def begin(secret: str) -> str:
                body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": me}
                return (await server("POST", "/mcp", body, token=secret, Accept=BOTH)).headers["mcp-session-id"]

            async def lives(secret: str, session: str) -> bool:
                body = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
                shown = {"token": secret, "Accept": BOTH, "Mcp-Session-Id": session}
                return (await server("POST", "/mcp", body, **shown)).status == 200

            others, first, second = await begin(other), await begin(mine), await begin(mine)
            assert await lives(mine, first)
            third = await begin(mine)
            assert [await lives(mine, each) for each in (first, second, third, others)] == [True, False, True, False]
            assert await lives(other, others)
            for _ in range(3):  # those that their clients ended are none of them
                shown = {"token": other, "Accept": BOTH, "Mcp-Session-Id": await begin(other)}
                assert (await server("DELETE", "/mcp", **shown)).status == 200
            assert await lives(other, others)

    anyio.run(crowd)


@ON_A_FILE
def test_a_client_finds_its_session_again_however_many_others_there_are(
    board: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own token's take its seat at most, and then those that were heard of since."""
    monkeypatch.setattr(seats, "OF_ONE_MAX", 2)
    monkeypatch.setattr(seats, "LOOKED_AT", 2)
    mine, other = (board.create_token(name=name, role="worker").secret for name in ("alice", "bob"))
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    async def crowd() -> None:
        async with within(Application(board, Rules(frozenset({"here"})))) as server:

            async def call(secret: str, client: str, **transport: str) -> str:
                params: dict[str, Any] = {"name": "emit_event", "arguments": {"event_type": f"by.{client}"}}
                shown = {"token": secret, "Accept": BOTH, **transport}
                if not transport:
                    shown |= {"Coordinate-Client": client, "MCP-Protocol-Version": version}
                    shown |= {"Mcp-Method": "tools/call", "Mcp-Name": "emit_event"}
                    params["_meta"] = meta
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                assert (await server("POST", "/mcp", body, **shown)).status == 200
                return client

            me = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": me}
            begun = (await server("POST", "/mcp", body, token=other, Accept=BOTH)).headers["mcp-session-id"]
            for client in ("desk", "one", "two", "three", "four", "desk"):
                await call(other, "kept", **{"Mcp-Session-Id": begun})
                await call(mine, client)
            await call(other, "kept", **{"Mcp-Session-Id": begun})

    anyio.run(crowd)
    streams = Counter(each.stream.split()[-1] for each in board.list_sessions(of_agent="alice"))
    assert streams == Counter(["desk", "one", "two", "three", "four"])
    assert len(board.list_sessions(of_agent="bob")) == 1


# --- the log as it grows ----------------------------------------------------------------------------------------------


class Stream:
    """Server-sent events, read by a thread."""

    def __init__(self, server: Server, path: str = "/events", **headers: str | None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", int(server.host.rsplit(":", 1)[1]), timeout=60)
        shown = {"Host": server.host, "Authorization": f"Bearer {server.secrets['worker']}", **headers}
        self.connection.request("GET", path, headers={name: said for name, said in shown.items() if said})
        assert self.connection.sock is not None
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        self.events: list[dict[str, Any]] = []
        self.came: list[float] = []
        self.ended = threading.Event()
        self.reading = threading.Thread(target=self._read)
        self.reading.start()

    def _read(self) -> None:
        try:
            for line in self.answer:
                if line.startswith(b"data: {"):
                    self.events.append(json.loads(line[6:]))
                    self.came.append(time.monotonic())
        except (OSError, http.client.HTTPException, ValueError):
            pass
        self.ended.set()

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.reading.join()
        self.answer.close()
        self.connection.close()

    def until(self, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 30
        while len(self.events) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.events


Follow = Callable[..., Stream]


@pytest.fixture
def follow(server: Server) -> Iterator[Follow]:
    """Begins a stream of the server; all are closed in the end."""
    begun: list[Stream] = []

    def begin(path: str = "/events", **headers: str | None) -> Stream:
        begun.append(Stream(server, path, **headers))
        return begun[-1]

    yield begin
    for stream in begun:
        stream.close()


def test_a_stream_brings_what_another_process_writes(server: Server, board: Coordinator, follow: Follow) -> None:
    """Each once and in order, also to one that comes later or comes back."""
    first = follow()
    time.sleep(0.3)
    began = time.monotonic()
    board.dispatch(title="A", role="worker")
    assert first.until(1)[-1]["event"] == "task.created"
    assert first.came[-1] - began < 20  # within one second on a quiet machine; see the documentation
    for number in range(120):
        board.emit(event_type="note", message=str(number), project="p" if number % 2 else "default")
    everything = [each["id"] for each in follow("/events?after=0").until(126)]
    assert everything == sorted(set(everything))
    assert [each["id"] for each in first.until(121)] == everything[-121:]
    back = follow(**{"Last-Event-ID": str(everything[100])})
    assert [each["id"] for each in back.until(25)] == everything[101:]
    narrow = follow("/events?after=0&project=p")
    assert {each["project"] for each in narrow.until(60)} == {"p"}
    for wrong in ("x", "99999"):
        assert server("GET", f"/events?after={wrong}", token=server.secrets["worker"]).status == 422
    assert server("HEAD", "/events", token=server.secrets["worker"]).status == 200


@ON_A_FILE
def test_what_is_under_way_ends_with_token_and_sign_in_and_what_does_not_arrive_in_time(
    server: Server, board: Coordinator, follow: Follow
) -> None:
    """IF-09. Streams and waits, at every door; another token's go on. A request that never arrives is cut."""
    head = f"POST /enter HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 9\r\n\r\n"
    late = [socket.create_connection(("127.0.0.1", int(server.host.rpartition(":")[2])), 60) for _ in range(3)]
    for line, said in zip(late, ("", "GET / HT", f"{head}token="), strict=True):
        line.sendall(said.encode())
    made = board.create_token(name="temp", role="worker")
    cookie, cookie_of = server.sign_in(made.secret), server.sign_in(server.secrets["human"])
    mine = {"Authorization": f"Bearer {made.secret}"}
    streams = [follow(**mine), follow(Authorization=None, Cookie=cookie), follow(Authorization=None, Cookie=cookie_of)]
    other, replies = follow(), []
    arguments: dict[str, Any] = {"role": "worker", "wait": 50}

    def wait() -> None:
        replies.append(server("POST", "/api/claim_next", arguments, token=made.secret).status)

    async def claim() -> None:
        async with over_http(server.mcp, made.secret, era="legacy") as worker:
            await worker("claim_next_task", **arguments)

    def ask() -> None:
        with suppress(Exception):
            anyio.run(claim)
        replies.append(401)

    waiting = [threading.Thread(target=each, daemon=True) for each in (wait, ask)]
    for each in waiting:
        each.start()
    time.sleep(1.5)
    board.revoke_token(token=made.token.id)
    proof = server("GET", "/", Cookie=cookie_of).json["csrf"]
    left = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{server.host}"}
    assert server("POST", "/leave", f"csrf={proof}".encode(), Cookie=cookie_of, **left).status == 303
    for stream in streams:
        assert stream.ended.wait(60)
    for each in waiting:
        each.join(60)
    assert replies == [401, 401]
    board.dispatch(title="T", role="worker")
    assert other.until(1)
    time.sleep(1)
    assert board.view(task="TASK-1").task.status == "TODO", "a call of a token that has ended took it"
    for line in late:
        with line, suppress(ConnectionResetError):
            assert line.recv(1) == b""


@ON_A_FILE
def test_a_wait_takes_nothing_for_a_client_that_went_away(server: Server, board: Coordinator) -> None:
    """Nobody would be told of it, and it were held for nobody until its time is over."""
    token, at = server.secrets["worker"], server.host.rpartition(":")[2]
    me = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": me}
    begun = server("POST", "/mcp", body, token=token, Accept=BOTH).headers["mcp-session-id"]
    shown = {"Host": server.host, "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    shown |= {"Accept": BOTH, "Mcp-Session-Id": begun}
    for path, role in (("/api/claim_next", "a"), ("/mcp", "b")):
        arguments = {"role": role, "wait": 30}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "claim_next_task"}}
        asked = arguments if role == "a" else call | {"params": {"name": "claim_next_task", "arguments": arguments}}
        line = http.client.HTTPConnection("127.0.0.1", int(at))
        line.request("POST", path, json.dumps(asked), shown)
        time.sleep(0.5)
        line.close()
        board.dispatch(title="T", role=role)
    time.sleep(1)
    assert board.stats().by_status == {"TODO": 2}
    assert server.api("claim_next", role="a", wait=5).json["handle"] == "TASK-1@1"


@ON_A_FILE
def test_a_token_that_a_restore_brought_back_may_wait_again_and_strangers_wait_for_each_other(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who is cut off by the end of the server is told so, as whoever reads JSON can read it."""
    monkeypatch.setattr(gate, "RECHECK_SECONDS", 0.1)
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.2)
    made, known = board.create_token(name="alice", role="worker"), board.create_token(name="bob", role="worker").secret
    slow, authenticate = threading.Event(), Coordinator.authenticate

    def look_up(self: Coordinator, *, secret: str) -> Token:
        if secret == "wrong":
            slow.wait(20)
        return authenticate(self, secret=secret)

    monkeypatch.setattr(Coordinator, "authenticate", look_up)

    async def ask() -> None:
        async with (
            within(Application(board, Rules(frozenset({"here"}), "https"))) as server,
            anyio.create_task_group() as tasks,
        ):
            answered: list[Reply] = []

            async def wait(secret: str, seconds: float) -> None:
                answered.append(await server("POST", "/api/wait_for", {"wait": seconds}, token=secret))

            tasks.start_soon(wait, made.secret, 20)
            await anyio.sleep(0.2)
            board.revoke_token(token=made.token.id)
            with anyio.fail_after(20):
                while not answered:
                    await anyio.sleep(0.05)
            run_on(board_url, "UPDATE tokens SET revoked_at = NULL")
            await wait(made.secret, 0.5)
            assert [each.status for each in answered] == [401, 200]

            assert (await server("GET", "/", token=known)).status == 200
            for _ in range(20):
                tasks.start_soon(wait, "wrong", 0)
            await anyio.sleep(0.1)
            with anyio.fail_after(10):
                assert (await server("GET", "/", token=known)).status == 200
            slow.set()

            assert (await server("GET", "/tasks/", token=known)).headers["location"].startswith("https://")
            last = asyncio.ensure_future(server("POST", "/api/wait_for", {"wait": 20}, token=known))
            await anyio.sleep(0.2)
            last.cancel()
            reply = await last
            assert (reply.status, reply.json["code"]) == (503, "busy")

    anyio.run(ask)


@ON_A_FILE
def test_who_looks_waits_for_nobody_who_waits_to_write(board: Coordinator, board_url: str) -> None:
    """Neither over the API nor by MCP, whose answers bring along what others said, be it nothing."""
    board.dispatch(title="T", role="worker")
    token = board.create_token(name="bob", role="worker").secret

    async def crowd() -> None:
        async with within(Application(board, Rules(frozenset({"here"})))) as server, anyio.create_task_group() as tasks:
            answered: list[int] = []

            async def note() -> None:
                answered.append(
                    (await server("POST", "/api/comment", {"task": "TASK-1", "text": "x"}, token=token)).status
                )

            mcp = await _begun(server, token)
            await mcp("list_my_tasks")
            await note()
            with connect(board_url) as another:
                another.execute("BEGIN IMMEDIATE")
                for _ in range(12):
                    tasks.start_soon(note)
                await anyio.sleep(0.3)
                with anyio.fail_after(10):
                    assert (await server("GET", "/tasks", token=token, Accept="text/html")).status == 200
                    assert (await mcp("list_my_tasks")) == []
                assert answered == [200]
                another.execute("ROLLBACK")

    anyio.run(crowd)


async def _begun(server: Callable[..., Any], token: str) -> Callable[..., Any]:
    """A client of MCP with a transport session."""
    shown = {"token": token, "Accept": BOTH}
    me = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": me}
    shown["Mcp-Session-Id"] = (await server("POST", "/mcp", body, **shown)).headers["mcp-session-id"]

    async def call(tool: str, **arguments: Any) -> Any:
        asked = {**body, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        told = (await server("POST", "/mcp", asked, **shown)).body.decode().partition("data: ")[2]
        return json.loads(told)["result"]["structuredContent"]["result"]

    return call


@ON_A_FILE
def test_it_stops_cleanly_with_open_streams_and_waits(server: Server, follow: Follow) -> None:
    stream = follow()
    found: dict[str, Any] = {}

    def wait() -> None:
        found["reply"] = server.api("wait_for", role="nobody", wait=50)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(1)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 143
    waiting.join(30)
    assert found["reply"].json["work"] is False
    assert stream.ended.wait(30)


# --- for operators ----------------------------------------------------------------------------------------------------


def test_health_is_a_write_and_metrics_are_figures(
    board: Coordinator, board_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever is not known is told no more than that something is wrong."""
    with serving(board, board_url, tmp_path) as server:
        look_as_an_operator(server, board, board_url)
        ask_a_broken_board(server, board_url)
    said = capfd.readouterr().err
    assert "counters" in said
    assert "tokens" in said


def look_as_an_operator(server: Server, board: Coordinator, board_url: str) -> None:
    board.dispatch(title="A", role="worker")
    assert server("GET", "/healthz").json["status"] == "ok"
    session = board.register(name="alice")
    run_on(
        board_url,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO sessions"
        " (id, agent, ttl_seconds, started_at, heartbeat_at, last_call_at) SELECT 's-' || i, agent, ttl_seconds,"
        f" started_at, heartbeat_at, last_call_at FROM n, sessions WHERE id = '{session.id}'",
    )
    figures = server("GET", "/metrics", token=server.secrets["worker"]).body.decode()
    assert 'coordinate_tasks{status="TODO"} 1\n' in figures
    assert f"coordinate_live_sessions {board.status().sessions_live}\n" in figures
    assert board.status().sessions_live > 1000
    assert server("GET", "/metrics").status == 401
    locked = connect(board_url)
    try:
        if is_postgres(board_url):
            locked.execute("BEGIN; LOCK TABLE counters")
        else:
            locked.execute("BEGIN IMMEDIATE")
        asking = [socket.create_connection(("127.0.0.1", int(server.host.rpartition(":")[2]))) for _ in range(60)]
        for line in asking:
            line.sendall(f"GET /healthz HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        assert server("GET", "/page.css").status == 200
        for line in asking:  # who asks a board that takes no write keeps nobody waiting who asks for something else
            with line, pytest.raises(BlockingIOError):
                line.recv(1, socket.MSG_DONTWAIT)
        assert server("GET", "/healthz").status == 503
        locked.execute("ROLLBACK")
    finally:
        locked.close()
    assert server("GET", "/healthz").status == 200


def ask_a_broken_board(server: Server, board_url: str) -> None:
    run_on(board_url, "ALTER TABLE tokens RENAME TO was_tokens", "ALTER TABLE counters RENAME TO was_counters")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for reply in (
        server("GET", "/healthz"),
        server.api("view", task="TASK-1"),
        server("GET", "/", token="x", Accept="text/html"),
        server("POST", "/enter", b"token=x", **form),
        server("POST", "/enter", b"token=x", Accept="text/html", **form),
        server("POST", "/do/respond", b"text=x", token="x", Accept="text/html", **form),
    ):
        assert reply.status == 503
        assert not re.search(rb"lacks|counters|tokens|postgres|board.db", reply.body), "what is wrong is for the log"


# --- many at once, and a sudden end -----------------------------------------------------------------------------------


async def work_until_done(agent: Agent, done: list[str], total: int, errors: list[str]) -> None:
    while len(done) < total:
        try:
            claim = await agent("claim_next_task", role="worker", wait=2)
            if claim is None:
                continue
            await agent("log_progress", handle=claim["handle"], note="n")
            await agent("complete_task", handle=claim["handle"])
        except Refused as refusal:
            errors.append(str(refusal))
            return
        done.append(claim["handle"])


def test_fifty_clients_share_one_server_without_an_error_or_a_double_claim(
    board: Coordinator, board_url: str, tmp_path: Path, engine: str
) -> None:
    total, clients = 150, 50
    for number in range(total):
        board.dispatch(title=f"T{number}", role="worker")
    secrets = [board.create_token(name=f"w{number}", role="worker").secret for number in range(clients)]
    done: list[str] = []
    errors: list[str] = []

    async def crowd() -> None:
        async def one(secret: str) -> None:
            async with over_http(server.mcp, secret, era=ERAS[engine]) as agent:
                await work_until_done(agent, done, total, errors)

        async with anyio.create_task_group() as tasks:
            for secret in secrets:
                tasks.start_soon(one, secret)

    with serving(board, board_url, tmp_path) as server:
        run(crowd)
    assert errors == []
    assert sorted(done) == sorted({f"TASK-{number}@1" for number in range(1, total + 1)})
    assert board.stats().by_status == {"DONE": total}
    assert len({each.claimed_by for each in board.list_tasks(limit=1000).tasks}) > clients / 4


def test_clients_go_on_after_the_server_was_killed(
    board: Coordinator, board_url: str, tmp_path: Path, engine: str
) -> None:
    """A call that was under way may have been made or not; a client looks at what it holds, and goes on."""
    total, clients = 60, 6
    for number in range(total):
        board.dispatch(title=f"T{number}", role="worker")
    secrets = [board.create_token(name=f"w{number}", role="worker").secret for number in range(clients)]
    done: set[str] = set()
    deaths = 0

    async def crowd() -> None:
        async def one(secret: str) -> None:
            while len(done) < total:
                try:
                    async with over_http(server.mcp, secret, era="auto") as agent:
                        for task in await agent("list_my_tasks"):
                            await agent("complete_task", handle=f"{task['id']}@{task['attempt']}")
                            done.add(task["id"])
                        while len(done) < total and (claim := await agent("claim_next_task", role="worker")):
                            await agent("complete_task", handle=claim["handle"])
                            done.add(claim["task"]["id"])
                        done.update(each.id for each in await ended())
                except Exception:
                    await anyio.sleep(random.uniform(0.05, 0.2))

        async def ended() -> Any:
            return (await anyio.to_thread.run_sync(lambda: board.list_tasks(status="DONE", limit=1000))).tasks

        async def killer() -> None:
            nonlocal deaths
            for enough in (10, 30):
                while len(done) < enough:
                    await anyio.sleep(0.01)
                await anyio.to_thread.run_sync(server.kill)
                deaths += 1
                await anyio.to_thread.run_sync(server.start_again)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(killer)
            for secret in secrets:
                tasks.start_soon(one, secret)

    with serving(board, board_url, tmp_path) as server:
        run(crowd)
    assert deaths == 2
    assert board.stats().by_status == {"DONE": total}
    sessions = board.list_sessions()
    assert len({each.agent for each in sessions}) == len(sessions) == clients, "a client did not find its session again"
