"""The page in a real browser: a person's whole loop, what other processes write, hostile words, keys, small screens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.requests import Request

from coordinate import Coordinator
from coordinate.http.app import Application
from coordinate.http.gate import Rules
from coordinate.http.page import answers, views
from coordinate.operations import Caller
from coordinate.records import GivenRow
from tests.clock import age
from tests.doors import browser as chromium
from tests.doors.browser import Watched
from tests.doors.server import Server, serving, within

ON_A_FILE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
PATIENCE = 20_000
expect.set_options(timeout=PATIENCE)

DECISION = {"action_owner": "decision", "impact": "the logo waits", "options": ["red", "blue"]}
Visit = Callable[..., tuple[Page, Watched]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium.find() is None:
        pytest.skip("NO BROWSER: the page was NOT tested; install Chromium or name one in COORDINATE_TEST_BROWSER")
    with chromium.running() as started:
        yield started


@pytest.fixture
def server(board: Coordinator, board_url: str, tmp_path: Path) -> Iterator[Server]:
    with serving(board, board_url, tmp_path / "served") as started:
        yield started


@pytest.fixture
def visit(server: Server, browser: Browser) -> Iterator[Visit]:
    """Sign a person in, and show a view; what the browser did is looked at in the end."""
    with ExitStack() as stack:
        seen: list[Watched] = []

        def go(path: str = "/", *, as_role: str = "human", **how: Any) -> tuple[Page, Watched]:
            page, watched = stack.enter_context(chromium.visiting(browser, **how))
            seen.append(watched)
            page.goto(f"http://{server.host}/enter")
            page.get_by_label("Token").fill(server.secrets[as_role])
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"http://{server.host}/")
            if path != "/":
                page.goto(f"http://{server.host}{path}")
            if how.get("script", True):
                expect(page.locator("#live")).to_have_text("live")
            return page, watched

        yield go
        for watched in seen:
            assert watched.dialogs == []
            assert watched.foreign(f"http://{server.host}/") == []
            assert watched.complaints == []


def card(page: Page, ask: str) -> Any:
    return page.locator(f"article#{ask}")


@ON_A_FILE
def test_a_person_answers_changes_takes_back_snoozes_and_sees_what_came_of_it(visit: Visit, board: Coordinator) -> None:
    for title in ("Which colour?", "Which shape?", "Which size?"):
        board.ask(title=title, **DECISION)
    board.ask(title="Renew the key", action_owner="task", next_step="log in", impact="no build is signed")
    page, _ = visit()
    page.evaluate("window.loadedOnce = true")
    expect(page.locator("article.ask h2")).to_have_text(
        ["Which colour?", "Which shape?", "Which size?", "Renew the key"]
    )

    card(page, "ASK-1").get_by_label("Your words on ASK-1").fill("the darker one")
    card(page, "ASK-1").get_by_role("button", name="blue").click()
    expect(page.locator("#said-ASK-1")).to_contain_text("hugo answered blue the darker one")
    expect(page.locator("#said-ASK-1")).to_contain_text("nobody was handed it yet")
    said = board.show_ask(ask="ASK-1").ask.response
    assert said is not None
    assert (said.choice, said.text, said.said_by, said.ask_revision) == ("blue", "the darker one", "hugo", 1)

    page.locator("#said-ASK-1").get_by_text("Change the answer").click()
    page.locator("#said-ASK-1").get_by_role("button", name="red").click()
    expect(page.locator("#said-ASK-1")).to_contain_text("hugo answered red")
    page.get_by_role("button", name="Undo the answer to ASK-1").click()
    expect(card(page, "ASK-1")).to_be_visible()
    assert board.show_ask(ask="ASK-1").ask.response is None

    card(page, "ASK-1").get_by_role("button", name="red").click()
    expect(page.locator("#said-ASK-1")).to_be_visible()
    page.route("**/", lambda route: route.fulfill(body=""))  # the view is not yet told
    board.collect(ask="ASK-1")
    page.get_by_role("button", name="Undo the answer to ASK-1").click()
    expect(page.locator("#said")).to_contain_text("was handed")
    page.unroute("**/")
    board.take(ask="ASK-1")
    expect(page.locator("#said-ASK-1")).to_contain_text("alice is acting on it")
    board.acknowledge(ask="ASK-1", response_seq=board.show_ask(ask="ASK-1").ask.response_seq, outcome="the logo is red")
    expect(page.locator("#closed-ASK-1")).to_contain_text("the logo is red")

    card(page, "ASK-2").get_by_role("button", name="Later").click()
    expect(page.locator("#asleep-ASK-2")).to_contain_text("Which shape?")
    page.evaluate("() => { Storage.prototype.removeItem = Storage.prototype.setItem = () => { throw new Error(); }; }")
    # Browsers of before the spring of 2023 leave out the button that was pressed.
    page.evaluate("() => { FormData = class extends FormData { constructor(form) { super(form); } }; }")
    page.get_by_role("button", name="Show ASK-2 now").click()
    card(page, "ASK-2").get_by_label("Your words on ASK-2").fill("of what?")
    card(page, "ASK-2").get_by_role("button", name="Ask back").click()
    expect(page.locator("#said-ASK-2")).to_contain_text("asked back of what?")
    card(page, "ASK-3").get_by_role("button", name="Decline").click()
    card(page, "ASK-4").get_by_role("button", name="Done my part").click()
    expect(page.locator("#said-ASK-4")).to_contain_text("did their part")
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()
    kinds = {each.id: each.response.kind for each in board.list_asks(unhandled=True) if each.response}
    assert kinds == {"ASK-2": "clarify", "ASK-3": "decline", "ASK-4": "handled"}
    assert page.evaluate("window.loadedOnce")
    board.ask(title="Which font?", **DECISION)
    page.evaluate("() => { delete SubmitEvent.prototype.submitter; }")  # older ones do not tell it
    card(page, "ASK-5").get_by_label("Your words on ASK-5").fill("none of them")
    card(page, "ASK-5").get_by_role("button", name="Decline").click()
    expect(page.locator("#said-ASK-5")).to_contain_text("declined none of them")


def test_another_process_is_seen_without_a_reload_and_drafts_survive(visit: Visit, board: Coordinator) -> None:
    """The server is one process and this is another; on either engine."""
    board.ask(title="Which colour?", context="a long story", **DECISION)
    page, _ = visit()
    page.evaluate("window.loadedOnce = true")
    card(page, "ASK-1").get_by_text("Background").click()
    draft = page.get_by_label("Your words on ASK-1")
    draft.fill("I thi")
    draft.press("End")

    board.ask(title="Which shape?", **DECISION)
    expect(card(page, "ASK-2")).to_be_visible()
    expect(page.locator("#to-you .count")).to_have_text("2")
    page.keyboard.type("nk")
    expect(draft).to_have_value("I think")
    expect(draft).to_be_focused()
    expect(card(page, "ASK-1").get_by_text("a long story")).to_be_visible()

    board.revise(ask="ASK-1", title="Which colour, red or blue?")
    expect(card(page, "ASK-1").locator("h2")).to_have_text("Which colour, red or blue?")
    expect(card(page, "ASK-1")).to_contain_text("changed while you were writing")
    board.withdraw(ask="ASK-1", reason="never mind")
    expect(card(page, "ASK-1")).to_contain_text("no longer waits")
    expect(draft).to_have_value("I think")
    assert page.evaluate("window.loadedOnce")

    page.get_by_label("Your words on ASK-2").fill("round")
    page.reload()
    expect(page.get_by_label("Your words on ASK-2")).to_have_value("round")


@ON_A_FILE
def test_keys_alone_suffice(visit: Visit, board: Coordinator) -> None:
    for title in ("Which colour?", "Which shape?"):
        board.ask(title=title, **DECISION)
    page, _ = visit()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(card(page, "ASK-1")).to_be_focused()
    page.keyboard.press("j")
    expect(card(page, "ASK-2")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("2")
    expect(page.locator("#said-ASK-1")).to_contain_text("blue")
    page.keyboard.press("u")
    expect(card(page, "ASK-1")).to_be_visible()
    page.keyboard.press("r")
    page.keyboard.type("in my words")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#said-ASK-1, #said-ASK-2")).to_contain_text("in my words")


@ON_A_FILE
def test_all_of_it_works_without_a_script(visit: Visit, board: Coordinator) -> None:
    """And a refusal keeps the words that were typed."""
    board.ask(title="Which colour?", **DECISION)
    page, _ = visit(script=False)
    card(page, "ASK-1").get_by_role("button", name="blue").click()
    expect(page.locator("#said-ASK-1")).to_contain_text("hugo answered blue")
    page.get_by_role("button", name="Undo the answer to ASK-1").click()
    page.get_by_label("Your words on ASK-1").fill("my long\nthoughts")
    board.withdraw(ask="ASK-1", reason="never mind")
    card(page, "ASK-1").get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_label("What you wrote")).to_have_value("my long\nthoughts")
    expect(page.locator("body")).to_contain_text(re.compile("closed", re.IGNORECASE))


@ON_A_FILE
def test_a_form_of_before_a_restart_is_there_to_be_sent_again(server: Server, board: Coordinator) -> None:
    """Without a script: its proof is over, and what was typed and chosen is not."""
    board.ask(title="Which colour?", **DECISION)
    cookie = server.sign_in(server.secrets["human"])
    sent = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    sent["Origin"] = f"http://{server.host}"
    old = {"csrf": "old", "ask": "ASK-1", "choice": "blue", "back": "/asks/ASK-1", "text": "<b>my\r\nwords", 'x"y': "&"}
    turned = server("POST", "/do/respond", urlencode(old).encode(), Cookie=cookie, **sent)
    assert (turned.status, turned.headers["content-type"][:9]) == (403, "text/html")
    assert board.show_ask(ask="ASK-1").ask.response is None
    shown = turned.body.decode()
    assert ">\n&lt;b&gt;my\nwords</textarea>" in shown and 'action="/do/respond"' in shown
    fields = {unescape(name): unescape(value) for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', shown)}
    proof = fields.pop("csrf")
    assert fields == {name: old[name] for name in ("ask", "choice", "back", 'x"y')}
    again = urlencode(fields | {"csrf": proof, "text": "my words"}).encode()
    assert server("POST", "/do/respond", again, Cookie=cookie, **sent).status == 303
    said = board.show_ask(ask="ASK-1").ask.response
    assert said is not None and (said.choice, said.text) == ("blue", "my words")

    out = server("POST", "/do/respond", urlencode(old).encode(), Cookie=cookie.partition("=")[0] + "=over", **sent)
    assert out.status == 401
    for there in (
        b"&lt;b&gt;my\nwords</textarea>",
        b'name="to" value="/asks/ASK-1"',
        b'action="/enter"',
        b"signed out",
    ):
        assert there in out.body
    foreign = sent | {"Origin": "http://evil.example"}
    assert b"<form" not in server("POST", "/do/respond", urlencode(old).encode(), Cookie=cookie, **foreign).body
    del foreign["Origin"]
    assert b"<form" not in server("POST", "/do/respond", urlencode(old).encode(), Cookie=cookie, **foreign).body


@ON_A_FILE
def test_only_who_may_answer_can_and_the_page_needs_a_name(server: Server, board: Coordinator) -> None:
    """IF-09. Who speaks is what the token says, whatever a form says."""
    board.ask(title="Which colour?", **DECISION)
    html = {"Accept": "text/html"}
    assert server("GET", "/", **html).headers["location"] == "/enter"
    assert server("GET", "/enter", **html).status == 200
    assert server("POST", "/do/respond", b"", **html).status == 401
    shown = server("GET", "/", token=server.secrets["worker"], **html)
    assert b"/do/respond" not in shown.body
    assert b"only a person&#39;s token" in shown.body or b"only a person's token" in shown.body
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"ask=ASK-1&kind=answer&text=yes&agent=hugo&said_by=hugo"
    assert server("POST", "/do/respond", body, token=server.secrets["worker"], **form).status == 403
    cookie = server.sign_in(server.secrets["human"])
    assert server("POST", "/do/respond", body, Cookie=cookie, Origin=f"http://{server.host}", **form).status == 403
    assert board.show_ask(ask="ASK-1").ask.response is None
    board.dispatch(title="T", role="worker")
    steer = b"task=TASK-1&title=U&was_title=T&priority=1&was_priority=1&expected_revision=1&text=why"
    for deed in ("cancel", "reopen", "unblock", "edit"):
        assert server("POST", f"/do/{deed}", steer, token=server.secrets["worker"], **form).status == 403
        own = {"Cookie": cookie, "Origin": f"http://{server.host}"}
        assert server("POST", f"/do/{deed}", steer, **own, **form).status == 403
    assert (board.view(task="TASK-1").task.title, board.view(task="TASK-1").task.revision) == ("T", 1)
    for path in ("/do/nothing", "/do/respond"):
        assert server("POST", path, b"ask=x", token=server.secrets["human"], **form).status in (404, 422)
    assert server("GET", "/do/respond", token=server.secrets["human"]).status == 405
    off = b"ask=ASK-1&text=yes&back=//evil.example/"
    answer = server("POST", "/do/respond", off, token=server.secrets["human"], **form | html)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert board.show_ask(ask="ASK-1").responses[0].said_by == "hugo"


@ON_A_FILE
def test_what_agents_told_is_shown_until_it_is_dismissed(board: Coordinator) -> None:
    for kind in ("note", "done", "note"):
        board.ask(title="A word", kind=kind)
    board.dismiss(ask="ASK-2", agent="hugo")
    caller = Caller("hugo", "human", "human", 1)
    request = Request({"type": "http", "headers": [], "query_string": b"", "state": {"caller": caller}})
    assert [each.id for each in views.needs_you(board, request)["told"]] == ["ASK-3", "ASK-1"]


@ON_A_FILE
def test_a_link_from_another_site_opens_the_view_also_by_way_of_the_door(server: Server, board: Coordinator) -> None:
    """IF-09. The door leads on to a view of the page, nowhere else."""
    ttl = 3 * 86_400
    secret = board.create_token(name="hugo", role="human", ttl_seconds=ttl).secret
    html = {"Accept": "text/html"}
    link = {**html, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    form = {**html, "Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{server.host}"}
    turned = server("GET", "/log?q=a+%26b", **link)
    assert (turned.status, turned.headers["location"]) == (303, "/enter?to=%2Flog%3Fq%3Da%2B%2526b")
    shown = server("GET", turned.headers["location"], **link)
    assert b'name="to" value="/log?q=a+%26b"' in shown.body
    for to, goes in {
        "/log?q=a+%26b": "/log?q=a+%26b",
        "/asks/ASK-1": "/asks/ASK-1",
        **dict.fromkeys(
            ("//evil.example", "/\\evil.example", "http://evil.example", "/enter?key=x", "/leave", ""), "/"
        ),
        "/tasks\t": "/",
    }.items():
        entered = server("POST", "/enter", urlencode({"token": secret, "to": to}).encode(), **form)
        assert (entered.status, entered.headers["location"]) == (303, goes)
    cookie, _, said = entered.headers["set-cookie"].partition(";")
    lasts = re.search(r"Max-Age=(\d+)", said)
    assert lasts is not None and ttl - 600 < int(lasts[1]) <= ttl
    for path in ("/", "/tasks?status=TODO", "/who"):
        assert server("GET", path, Cookie=cookie, **link).status == 200
    old = server("GET", "/enter?key=old", **html)
    assert old.status == 401
    assert b"ended with the server" in old.body
    lost = server("GET", "/tasks/TASK-99", Cookie=cookie, **html)
    assert lost.status == 404
    assert b"coordinate task" not in lost.body


VIEWS = (
    "/",
    "/asks",
    "/asks/ASK-1",
    "/boards",
    "/tasks",
    "/tasks?status=DONE",
    "/tasks/TASK-1",
    "/who",
    "/log",
    "/charts",
)
HOSTILE = [
    "<script>window.pwned=1;alert(1)</script>",
    "\"'><img src=//evil.example/x onerror=alert(1)>",
    "</textarea></title></style></script><svg onload=alert(1)>",
    "{{7*7}}${7*7}{% raw %}<%= 7*7 %>",
    "javascript:alert(1)//",
    "\u202egnp.exe \u2066\u200b\u00ad",
    "&lt;b&gt; &amp;amp; %3Cscript%3E",
]


@ON_A_FILE
def test_whatever_agents_write_is_text(visit: Visit, server: Server, board: Coordinator) -> None:
    """IF-08. In every field of every view, and at every place of it; the policy had nothing to stop."""
    wide = "W" * 90
    for number, line in enumerate([*HOSTILE, wide]):
        fill(board, line, number)
    paths = [*VIEWS, *(f"/board?{urlencode({'title': line, 'project': line[:90]})}" for line in (HOSTILE[1], wide))]
    paths += [f"/tasks/TASK-{3 * number + 1}" for number in range(len(HOSTILE))]
    paths += [
        "/tasks/%3Cscript%3Ealert(1)%3C/script%3E",
        "/asks/%3Cimg%20onerror=alert(1)%3E",
        "/log?q=%3Cscript%3E",
        "/tasks?q=%22%3E%3Cscript%3E&agent=%22%3E",
    ]
    for width in (1280, 360):
        page, _ = visit(width=width)
        for path in paths:
            page.goto(f"http://{server.host}{path}")
            for details in page.locator("main details").all()[:40]:
                details.evaluate("each => each.open = true")
            if "alert(1)" not in path:
                expect(page.locator("#live")).to_have_text("live")
            assert page.evaluate("window.pwned") is None
            found = page.evaluate(MARKUP)
            assert found == [], f"{path}: {found}"
            assert page.evaluate(NAMELESS) == [], path
            assert page.evaluate(TOO_WIDE, width) == [], path
            assert "49$" not in page.inner_text("body"), path
        page.goto(f"http://{server.host}/tasks/TASK-1")
        for shown in (HOSTILE[0], "TASK-1"):
            expect(page.locator("h1, main").first).to_contain_text(shown)
        page.goto(f"http://{server.host}/tasks/TASK-16")
        expect(page.locator("h1")).to_have_text(
            "\u27e8202E\u27e9gnp.exe \u27e82066\u27e9\u27e8200B\u27e9\u27e800AD\u27e9"
        )


# Elements, addresses and handlers that no template has, wherever they came from.
MARKUP = """
() => [...document.querySelectorAll("*")].filter(each =>
  (each.localName === "script" && each.getAttribute("src") !== "/page.js")
  || (each.localName === "img" && each.getAttribute("src") !== "/page.svg")
  || (each.localName === "svg" && !each.closest(".chart"))
  || ["iframe", "object", "embed", "base", "b64", "style"].includes(each.localName)
  || [...each.attributes].some(one => one.name.startsWith("on") || one.name === "style"
      || (["href", "src", "action", "formaction"].includes(one.name) && !/^[/#](?![/])/.test(one.value)))
).map(each => each.outerHTML.slice(0, 200))
"""


# What a person who does not see the page could not tell.
NAMELESS = """
() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, img, summary, [role=img]")]
  .filter(each => !(each.matches("input, select, textarea") ? [...each.labels].some(label => label.textContent.trim())
    : each.matches("img") ? each.hasAttribute("alt")
    : each.textContent.trim() || each.ariaLabel))
  .map(each => each.outerHTML.slice(0, 120))
"""

# What makes the whole document wider than the screen.
TOO_WIDE = """
width => document.documentElement.scrollWidth <= width ? [] : [...document.querySelectorAll("*")].filter(each =>
  !each.closest(".wide, svg") && each.getBoundingClientRect().right > width).map(each => each.outerHTML.slice(0, 120))
"""


def fill(board: Coordinator, words: str, number: int) -> None:
    """Write it into every field that an agent can write."""
    name = "".join(each for each in words[:90] if each.isprintable()).strip()  # a name takes nothing invisible
    agent = board.acting(agent=name)
    run = agent.register(name=name, stream=words, doing=words, host=words, project=name)
    agent = board.acting(agent=name, session=run.id)
    agent.set_doing(doing=words, detail=words)
    given = {"title": words, "role": name, "body": words, "project": name, "scopes": [f"{words}/**"]}
    first, second, third = (agent.dispatch(**given, dedup_key=f"{words}{each}").task.id for each in range(3))
    agent.depend_add(task=second, on=first)
    claim = agent.claim_task(task=first)
    agent.log_progress(handle=claim, note=words, note_type="DECISION")
    agent.open_worktree(task=claim.handle, branch=f"b{number}", root=words)
    agent.acquire_lock(name=name, project=name)
    agent.comment(task=first, text=words)
    agent.emit(event_type=f"hostile.{number}", payload={words: [words]}, message=words, ref=name, project=name)
    words_of_ask = dict.fromkeys(("detail", "next_step", "impact", "next_after", "context"), words)
    options = [{"label": name, "detail": words, "recommended": True}, "other"]
    for _ in range(2):
        agent.ask(title=words, action_owner="decision", options=options, project=name, **words_of_ask)
    agent.ask(title=words, action_owner="decision", options=options, task=claim.handle, **words_of_ask)
    agent.ask(title=words, kind="note", detail=words, project=name)
    asked = agent.list_asks(project=name)
    agent.respond(ask=asked[0].id, text=words, context=words, choice=name)
    agent.collect(ask=asked[0].id)
    agent.take(ask=asked[0].id)
    agent.annotate(ask=asked[0].id, text=words)
    agent.respond(ask=asked[1].id, text=words)
    agent.collect(ask=asked[1].id)
    agent.acknowledge(ask=asked[1].id, response_seq=1, outcome=words)
    row = GivenRow(label=name, status="partial", note=words, context=words)
    turn = GivenRow(label=f"{name}2", status="blocked", action_owner="task", **words_of_ask_row(words))
    agent.board_upsert(title=name, project=name, rows=[row, turn], stream=words)
    agent.board_annotate(title=name, label=name, project=name, text=words)
    done = agent.claim_task(task=third)
    agent.complete(handle=done, result=words)


def words_of_ask_row(words: str) -> dict[str, str]:
    return dict.fromkeys(("note", "next_step", "impact", "next_after", "context"), words)


@ON_A_FILE
def test_a_task_is_followed_while_others_work_on_it(visit: Visit, board: Coordinator) -> None:
    board.dispatch(title="Draw the logo", body="round", role="worker", scopes=["art/**"])
    board.dispatch(title="Print it", role="worker", depends_on=["TASK-1"])
    page, _ = visit("/tasks")
    expect(page.locator("#column-TODO li.task")).to_have_count(2)
    page.locator("#TASK-1 h3 a").click()
    page.evaluate("window.loadedOnce = true")
    expect(page.locator("#head")).to_contain_text("the next claim of role worker")
    claim = board.claim_next(role="worker")
    assert claim is not None
    expect(page.locator("#head")).to_contain_text("alice holds it")
    page.get_by_label("A note on TASK-1").fill("make it ro")
    board.log_progress(handle=claim, note="a circle stands")
    expect(page.locator("#notes")).to_contain_text("a circle stands")
    expect(page.get_by_label("A note on TASK-1")).to_be_focused()
    page.keyboard.type("und")
    page.get_by_role("button", name="Note it").click()
    expect(page.locator("#notes")).to_contain_text("make it round")
    board.ask(title="Which colour?", task=claim.handle, blocking=True, **DECISION)
    page.locator("#ASK-1 a.id").click()
    card(page, "ASK-1").get_by_role("button", name="red").click()
    expect(page.locator("main")).to_contain_text("hugo answered red")
    page.get_by_role("link", name="TASK-1").click()
    claim = board.claim_next(role="worker")
    assert claim is not None
    board.complete(handle=claim, result="logo.svg")
    expect(page.locator("#head")).to_contain_text("logo.svg")
    expect(page.locator("#history")).to_contain_text("complete")
    for to, says in {
        "who": "wendy",
        "log": "task.completed",
        "charts": "1 in 30 days",
        "boards": "No boards yet",
    }.items():
        page.locator(f"#to-{to}").click()
        expect(page.locator("main")).to_contain_text(says)
    page.goto(page.url.replace("/boards", "/tasks?q=PRINT"))
    expect(page.locator("li.task")).to_have_count(1)


@ON_A_FILE
def test_a_board_is_watched_and_spoken_to(visit: Visit, board: Coordinator) -> None:
    done = GivenRow(label="Tests", status="done", next_step="run them")
    board.board_upsert(title="Release / 2", rows=[GivenRow(label="Manual", next_step="write the index"), done])
    page, _ = visit("/boards")
    expect(page.locator("main")).to_contain_text("50 %")
    page.get_by_role("link", name="Release / 2").click()
    expect(page.locator("#rows")).to_contain_text("Next: write the index")
    expect(page.locator("#rows")).not_to_contain_text("run them")
    row = page.locator("#ROW-1")
    row.get_by_text("Say something").click()
    row.get_by_label("A word beside Manual").fill("with pictures")
    row.get_by_role("button", name="Say it").click()
    expect(row).to_contain_text("hugo: with pictures")
    view = board.board_get(title="Release / 2")
    board.board_row(title="Release / 2", label="Manual", status="done", expected_revision=view.rows[0].revision)
    expect(page.locator("main")).to_contain_text("100 %")


@ON_A_FILE
def test_every_list_leads_on_to_its_end(board: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its items is on one of its pages, and once; the last page leads nowhere."""
    monkeypatch.setattr(views, "PAGE", 2)
    monkeypatch.setattr(views, "PEOPLE_MAX", 2)
    monkeypatch.setattr(answers, "CHOICES_MAX", 1)
    board.dispatch(title="T", role="another", project="other")
    secret = board.create_token(name="hugo", role="human").secret
    for name in "abcd":
        board.register(name=name)
        board.dispatch(title="T", role="worker")
        board.complete(handle=board.claim_next(role="worker"))
        board.board_upsert(title=name, rows=[])
        ask = board.ask(title=name, **DECISION).ask.id
        board.snooze(ask=ask, until=board.now() + timedelta(hours=1), agent="hugo")
        board.dispatch(title="W", role="worker")
        held = board.claim_next(role="worker")
        board.open_worktree(task=held.handle, branch=name, root=f"/trees/{name}", patterns=[name])

    async def look() -> None:
        async with within(Application(board, Rules(frozenset({"here"})))) as server:
            for path, items, count in (
                ("/tasks?status=DONE", r'id="TASK-\d+"', 4),
                ("/boards", r'id="BOARD-\d+"', 4),
                ("/", r'id="asleep-ASK-\d+"', 4),
                ("/asks", r'id="ASK-\d+"', 4),
                ("/asks?q=blue", r'id="ASK-\d+"', 4),
                ("/who", r'id="worktree-\d+"', 4),
                ("/who", r'id="lease-\d+"', 4),
                ("/who", r'id="known-\d+".*?</a>', len(board.list_agents())),
                ("/log?kind=ask.opened", r'id="event-\d+"', 4),
            ):
                found: list[str] = []
                to: str | None = path
                while to:
                    page = (await server("GET", to, token=secret, Accept="text/html")).body.decode()
                    shown = list(re.finditer(items, page))
                    found += (re.sub('id="known-.', "", each[0]) for each in shown)
                    rest = page[shown[-1].end() :].partition("</section>")[0]
                    more = re.search('<a class="button" href="([^"]+)"[^>]*>More', rest)
                    to = unescape(more[1]) if more else None
                assert (len(found), len(set(found))) == (count, count), path
            people = (await server("GET", "/who", token=secret, Accept="text/html")).body
            assert b"there are more" in people
            for path in ("/asks", "/tasks", "/log"):
                page = (await server("GET", path, token=secret, Accept="text/html")).body.decode()
                assert '<input name="project"' in page, "of more than one chooses from, one is written"
            monkeypatch.setattr(answers, "CHOICES_MAX", 2)
            page = (await server("GET", "/asks?project=third", token=secret, Accept="text/html")).body.decode()
            assert '<option value="third" selected>' in page

    with ThreadPoolExecutor(1) as aside:  # the browser of other tests has a loop in this thread
        aside.submit(anyio.run, look).result()


@ON_A_FILE
def test_what_is_past_its_time_is_not_said_to_last(server: Server, board: Coordinator, board_url: str) -> None:
    """A take and what was kept for somebody, as the ask's and the task's own page have it."""
    board.board_row(title="B", label="r", status="blocked", next_step="do", action_owner="task", impact="i")
    board.respond(ask="ASK-1", kind="handled", agent="hugo")
    board.take(ask="ASK-1", seconds=60)
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    board.ask(title="Which colour?", task=claim.handle, blocking=True, **DECISION)
    board.respond(ask="ASK-2", kind="answer", text="red", agent="hugo")
    board.register(name="alice")
    board.ask(title="Which shape?", timeout_seconds=60, **DECISION)

    def shown(path: str) -> str:
        page = server("GET", path, token=server.secrets["human"], Accept="text/html").body.decode()
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))

    for said in ("Deploying", "Deployed"):
        told = board.ask(title=said, kind="note").ask.id
        assert said in shown("/")
    board.dismiss(ask=told, agent="hugo")
    assert "Deploying" in shown("/")
    assert "Deployed" not in shown("/")
    assert "alice is acting on it" in shown("/board?title=B")
    assert "kept for alice" in shown("/tasks")
    assert "waits for a person" in shown("/asks/ASK-3")
    age(board_url, 86_400)
    assert "alice was handed it" in shown("/board?title=B")
    assert "alice is acting" not in shown("/board?title=B")
    assert "kept for alice" not in shown("/tasks")
    assert "its time is over" in shown("/asks/ASK-3")
    assert "waits for a person" not in shown("/asks/ASK-3")
    assert "silent since" in shown("/who")
    assert "at worksilent" not in shown("/who")


@ON_A_FILE
def test_a_key_pressed_twice_says_nothing_on_another_ask(visit: Visit, board: Coordinator) -> None:
    for title in ("Which colour?", "Which shape?", "Which size?"):
        board.ask(title=title, **DECISION)
    page, _ = visit()
    page.keyboard.press("j")
    for _ in range(2):
        page.keyboard.press("1")
    expect(page.locator("#said-ASK-1")).to_contain_text("red")
    expect(card(page, "ASK-2").locator("h2")).to_be_focused()
    for key in ("1", "2", "s"):
        page.keyboard.press(key)
    page.locator("#said-ASK-1").focus()
    page.keyboard.press("2")
    page.locator("#said-ASK-1").locator("h3").click()
    page.keyboard.press("2")
    card(page, "ASK-2").locator("h2").click()
    page.keyboard.press("2")
    expect(page.locator("#said-ASK-2")).to_contain_text("blue")
    answered = {each.id: each.response.choice for each in board.list_asks(unhandled=True) if each.response}
    assert answered == {"ASK-1": "red", "ASK-2": "blue"}
    assert board.list_asks(snoozed=True) == []

    page.locator("#said-ASK-1").get_by_text("Change the answer").click()
    page.keyboard.press("2")
    expect(page.locator("#said-ASK-1")).to_contain_text("hugo answered blue")
    for _ in range(2):
        page.keyboard.press("u")
    expect(page.locator("article.ask")).to_have_count(2)
    page.wait_for_timeout(300)
    assert len(board.list_asks(unhandled=True)) == 1


@ON_A_FILE
def test_words_that_are_taken_back_or_changed_are_there_to_go_on_with(visit: Visit, board: Coordinator) -> None:
    options = ["red", {"label": "blue", "recommended": True}]
    board.ask(title="Which colour?", action_owner="decision", impact="the logo waits", options=options)
    page, _ = visit()
    words, text = page.get_by_label("Your words on ASK-1"), "the <b>darker</b> one"
    card(page, "ASK-1").get_by_role("button", name="Answer", exact=True).click()
    expect(words).to_be_focused()
    words.fill(text)
    card(page, "ASK-1").get_by_role("button", name="red").click()
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(words).to_have_value(text)
    expect(card(page, "ASK-1").locator("h2")).to_be_focused()
    card(page, "ASK-1").get_by_role("button", name="red").click()
    page.locator("#said-ASK-1").get_by_text("Change the answer").click()
    expect(words).to_have_value(text)
    expect(page.locator("#said-ASK-1 .option.chosen")).to_contain_text("red")
    page.reload()
    page.get_by_role("button", name="Undo the answer to ASK-1").click()
    expect(words).to_have_value(text)
    expect(page.locator(".option.chosen")).to_have_count(0)


@ON_A_FILE
def test_a_page_whose_server_is_gone_says_so_and_one_that_is_signed_out_leads_to_the_door(
    server: Server, browser: Browser, board: Coordinator
) -> None:
    board.ask(title="Which colour?", **DECISION)
    with chromium.visiting(browser) as (page, _):
        page.goto(server.told["sign_in"])
        expect(page.locator("#live")).to_have_text("live")
        server.kill()
        page.get_by_label("Your words on ASK-1").fill("mine")
        card(page, "ASK-1").get_by_role("button", name="red").click()
        expect(page.locator("#said")).to_contain_text("The server does not answer")
        server.start_again()
        expect(page.locator("#out")).to_contain_text("You are signed out")
        expect(page.get_by_label("Your words on ASK-1")).to_have_value("mine")
        page.get_by_role("link", name="Sign in again").click()
        page.get_by_label("Token").fill(server.secrets["human"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_label("Your words on ASK-1")).to_have_value("mine")


@ON_A_FILE
def test_of_two_people_at_once_the_second_is_told_what_the_first_said(
    visit: Visit, server: Server, board: Coordinator
) -> None:
    """Neither answer is lost; and words that were revised meanwhile are not answered unawares."""
    for title in ("Which colour?", "Which shape?"):
        board.ask(title=title, **DECISION)
    page, _ = visit()
    page.route("**/", lambda route: route.fulfill(body=""))  # the view is not yet told
    board.acting(agent="ada").respond(ask="ASK-1", choice="red", text="as \u202eever")
    page.get_by_label("Your words on ASK-1").fill("darker")
    card(page, "ASK-1").get_by_role("button", name="blue").click()
    said = page.locator("#said")
    expect(said).to_contain_text("ada was first, and said: \u201cred, as \u27e8202E\u27e9ever\u201d")
    expect(said).to_contain_text("Yours stands now: \u201cblue, darker\u201d")
    board.revise(ask="ASK-2", title="Which shape, round or square?")
    card(page, "ASK-2").get_by_role("button", name="red").click()
    expect(said).to_contain_text("put in other words meanwhile")
    page.unroute("**/")
    expect(page.locator("#said-ASK-2")).to_contain_text("to earlier words")
    shown = board.show_ask(ask="ASK-1").responses
    assert [(each.said_by, each.choice) for each in shown] == [("ada", "red"), ("hugo", "blue")]
    page.locator("#said-ASK-1").get_by_text("Change the answer").click()
    page.locator("#said-ASK-1").get_by_role("button", name="red").click()
    expect(said).to_have_text(re.compile("^Answered ASK-1(Undo)?$"))  # their own word is no news

    form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    body = b"ask=ASK-1&choice=blue&response_seq=2"  # without a script
    told = server("POST", "/do/respond", body, token=server.secrets["admin"], **form)
    assert told.status == 200
    assert b"hugo was first" in told.body
    expect(page.locator("#said-ASK-1")).to_contain_text("ada answered blue")  # and whoever was first sees it, too
    expect(page.locator("#said-ASK-1")).to_contain_text("came after your answer")
    page.locator("#said").get_by_role("button", name="Undo").click()  # of what they said before ada did
    expect(said).to_contain_text("does not stand: what stands now is ada's 'blue', response 4")
    page.locator("#said-ASK-1").get_by_text("Change the answer").click()
    expect(page.locator("#said-ASK-1 .now")).to_have_text("ada’s choice")
    seen = b"ask=ASK-1&choice=red&response_seq=4"
    assert server("POST", "/do/respond", seen, token=server.secrets["human"], **form).status == 303
    for stale, status in ((b"ask=ASK-1", 422), (b"ask=ASK-1&response_seq=4", 409), (b"ask=ASK-1&response_seq=5", 303)):
        assert server("POST", "/do/undo", stale, token=server.secrets["human"], **form).status == status
    assert board.show_ask(ask="ASK-1").ask.response is None


@ON_A_FILE
def test_who_is_answered_for_while_they_write_reads_by_whom_and_what(visit: Visit, board: Coordinator) -> None:
    board.ask(title="Which colour?", **DECISION)
    page, _ = visit()
    page.get_by_label("Your words on ASK-1").fill("dark")
    ada = board.acting(agent="ada")
    ada.respond(ask="ASK-1", choice="red", text="as ever")
    expect(card(page, "ASK-1").locator(".stale")).to_contain_text(
        "ada answered red as ever. What you wrote is still here"
    )
    card(page, "ASK-1").get_by_role("link", name="See what was said").click()
    expect(page.get_by_label("Your words on ASK-1")).to_have_value("dark")
    ada.respond(ask="ASK-1", choice="blue")
    expect(card(page, "ASK-1").locator(".stale")).to_have_text("ada answered blue, while you were writing.")
    expect(card(page, "ASK-1").locator(".now")).to_have_text("ada’s choice")


@ON_A_FILE
def test_what_was_handed_over_says_to_whom_and_reviews_count_as_asks_do(visit: Visit, board: Coordinator) -> None:
    board.ask(title="Which colour?", **DECISION)
    board.dispatch(title="Print it", role="worker")
    claim = board.claim_next(role="worker")
    assert claim is not None
    board.complete(handle=claim, review=True)
    page, _ = visit()
    expect(page.locator("#to-you .count")).to_have_text("2")
    card(page, "ASK-1").get_by_role("button", name="blue").click()
    expect(page.locator("#to-you .count")).to_have_text("1")
    board.acting(agent="bob").pending()
    expect(page.locator("#said-ASK-1")).to_contain_text("bob was handed it")
    expect(page.locator("#said-ASK-1")).to_contain_text("alice had asked")
    expect(page.locator("#said-ASK-1")).to_contain_text("can be changed, and no longer be taken back")
    board.ask(title="May it go?", action_owner="approval", impact="x", options=["go", "wait"], task="TASK-1")
    expect(card(page, "ASK-2")).to_be_visible()
    expect(page.locator("#to-you .count")).to_have_text("1")  # the approval is the review
    for number in range(60):
        asked = board.ask(title=f"Which {number}?", action_owner="task", next_step="x", impact="y").ask.id
        board.acting(agent="hugo" if number < 55 else "ada").respond(ask=asked, text="yes")
    expect(page.locator("#with-agents article")).to_have_count(50)
    page.locator("#with-agents .more a").click()
    expect(page.locator("#with-agents article")).to_have_count(6)


@ON_A_FILE
def test_a_person_steers_a_task(visit: Visit, board: Coordinator) -> None:
    board.dispatch(title="Draw the logo", role="worker")
    board.dispatch(title="Print it", role="worker", depends_on=["TASK-1"])
    page, _ = visit("/tasks/TASK-1")
    page.get_by_text("Change title or priority").click()
    title, priority = page.get_by_label("Title"), page.get_by_label("Priority")
    title.fill("Draw the round logo")
    priority.fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Draw the round logo")
    page.route("**/tasks/TASK-1", lambda route: route.fulfill(body=""))
    board.edit(task="TASK-1", title="Draw it")
    page.get_by_text("Change title or priority").click()
    priority.fill("8")
    with page.expect_response("**/do/edit"):
        page.get_by_role("button", name="Save").click()
    task = board.view(task="TASK-1").task
    assert (task.title, task.priority) == ("Draw it", 8)  # what was not touched is not sent back
    expect(page.locator("#edit[open]")).to_have_count(0)
    page.get_by_text("Change title or priority").click()
    title.fill("Mine")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#said")).to_contain_text("was changed meanwhile, to Draw it")
    page.unroute("**/tasks/TASK-1")
    claim = board.claim_next(role="worker")
    assert claim is not None
    board.block(handle=claim, reason="no paper")
    page.get_by_label("What has changed").fill("there is paper")
    page.locator("#unblock button").click()
    expect(page.locator("#head .mark")).to_have_text("todo")
    page.locator("#cancel > summary").click()
    page.get_by_label("Why nobody shall do it any more").fill(" ")
    page.locator("#cancel-sure summary").click()
    page.get_by_role("button", name="Yes, nobody shall do it").click()
    expect(page.locator("#said")).to_contain_text("not cancelled without a reason")
    page.get_by_label("Why nobody shall do it any more").fill("no logo")
    page.get_by_role("button", name="Yes, nobody shall do it").click()
    expect(page.locator("#head .mark")).to_have_text("cancelled")
    expect(page.locator("#said")).to_contain_text("never becomes ready now: TASK-2")
    expect(page.locator("#history")).to_contain_text("no logo")
    page.locator("#reopen summary").click()
    page.get_by_role("button", name="Put it back into the queue").click()
    expect(page.locator("#head .mark")).to_have_text("todo")
    page, _ = visit("/tasks/TASK-1", as_role="worker")
    expect(page.locator("#head details")).to_have_count(0)
    board.claim_scopes(patterns=["shop/payments/refunds/**", "docs/manual.md"])
    page, _ = visit("/who", width=390, height=844)
    expect(page.locator(".held .mono")).to_have_count(2)
    in_lines = "each => each.map(one => one.getClientRects().length)"
    assert page.locator(".held .mono .words").evaluate_all(in_lines) == [1, 1]


@ON_A_FILE
def test_a_person_passes_and_refuses_reviews_and_the_log_tells_what_was_said(
    visit: Visit, server: Server, board: Coordinator
) -> None:
    for title in ("Draw the logo", "Print it", "My own"):
        board.dispatch(title=title, role="worker")
        worker = board.acting(agent="hugo") if title == "My own" else board
        claim = worker.claim_next(role="worker")
        assert claim is not None
        if title == "Print it":
            board.ask(title="How many?", task=claim.handle, **DECISION)
        worker.complete(handle=claim, review=True, result=f"{title}: done")
    page, _ = visit()
    expect(page.locator("#reviews article")).to_have_count(3)
    one = page.locator("#review-TASK-1")
    expect(one).to_contain_text("Draw the logo: done")
    expect(one).to_contain_text("alice handed it in")
    one.get_by_role("button", name="Reject").click()
    expect(one.get_by_label("Your words on TASK-1")).to_be_focused()
    page.keyboard.type("not round")
    page.keyboard.press("Control+Enter")
    one.get_by_role("button", name="Reject").click()
    expect(one).to_have_count(0)
    task = board.view(task="TASK-1")
    assert (task.task.status, task.notes[0].content) == ("TODO", "not round")
    page.locator("#review-TASK-3").get_by_role("button", name="Approve").click()
    expect(page.locator("#said")).to_contain_text("hugo worked on TASK-3")
    page.locator("#review-TASK-2 a.id").click()
    page.route("**/tasks/TASK-2", lambda route: route.fulfill(body=""))  # the view is not yet told
    board.acting(agent="ada").reject(task="TASK-2", reason="too pale")
    board.complete(handle=board.claim_task(task="TASK-2"), review=True, result="Print it: darker")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#said")).to_contain_text("changed meanwhile")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for deed in ("approve", "reject", "unblock", "cancel", "reopen"):
        for shown, status in (("", 422), ("&expected_revision=1", 409)):
            body = f"task=TASK-2&text=x{shown}".encode()
            assert server("POST", f"/do/{deed}", body, token=server.secrets["human"], **form).status == status
    page.unroute("**/tasks/TASK-2")
    expect(page.locator("#head")).to_contain_text("Print it: darker")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#head .mark")).to_have_text("done")
    board.acting(agent="ada").respond(ask="ASK-1", choice="red", text="the dark one")
    page.goto(page.url.replace("/tasks/TASK-2", "/log"))
    for line in ("Draw the logo hugo not round", "How many? ada", "ada answered red the dark one"):
        expect(page.locator("main")).to_contain_text(line)
    page.locator("#to-you").click()
    expect(page.locator("#said-ASK-1")).to_have_count(0)
