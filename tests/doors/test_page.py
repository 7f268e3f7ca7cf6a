"""The page in a real browser: a person's whole loop, what other processes write, hostile words, keys, small screens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from coordinate import Coordinator
from tests.doors import browser as chromium
from tests.doors.browser import Watched
from tests.doors.server import Server, serving

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
    board.collect(ask="ASK-1")
    page.get_by_role("button", name="Undo the answer to ASK-1").click()
    expect(page.locator("#said")).to_contain_text("was handed")
    board.take(ask="ASK-1")
    expect(page.locator("#said-ASK-1")).to_contain_text("alice is acting on it")
    board.acknowledge(ask="ASK-1", response_seq=board.show_ask(ask="ASK-1").ask.response_seq, outcome="the logo is red")
    expect(page.locator("#closed-ASK-1")).to_contain_text("the logo is red")

    card(page, "ASK-2").get_by_role("button", name="Later").click()
    expect(page.locator("#asleep-ASK-2")).to_contain_text("Which shape?")
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
    cookie = f"coordinate_token={server.secrets['human']}"
    assert server("POST", "/do/respond", body, Cookie=cookie, Origin=f"http://{server.host}", **form).status == 403
    assert board.show_ask(ask="ASK-1").ask.response is None
    for path in ("/do/nothing", "/do/respond"):
        assert server("POST", path, b"ask=x", token=server.secrets["human"], **form).status in (404, 422)
    assert server("GET", "/do/respond", token=server.secrets["human"]).status == 405
    off = b"ask=ASK-1&text=yes&back=//evil.example/"
    answer = server("POST", "/do/respond", off, token=server.secrets["human"], **form | html)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert board.show_ask(ask="ASK-1").responses[0].said_by == "hugo"
