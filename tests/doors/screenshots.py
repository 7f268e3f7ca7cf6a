"""The pictures of docs/page.md: `python -m tests.doors.screenshots` makes them anew, from an invented board.

Needs Chromium, and the `test` extra.
"""

# ruff: noqa: E501

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import coordinate
from coordinate import Coordinator
from tests.clock import age
from tests.doors.browser import running, visiting
from tests.doors.server import serving

HERE = Path(__file__).parents[2] / "docs" / "images"
DESKTOP, PHONE = (1280, 740), (390, 844)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place, running() as browser:
        url = str(Path(place) / "board.db")
        with coordinate.connect(url, agent="mira", create=True) as board:
            furnish(board, url)
            with serving(board, url, Path(place) / "served", "--agent", "mira") as server:
                for name, (path, width) in VIEWS.items():
                    size = DESKTOP if width == "desktop" else PHONE
                    with visiting(browser, width=size[0], height=size[1], dark="dark" in name) as (page, _):
                        page.goto(server.told["sign_in"].replace("localhost", "127.0.0.1"))
                        page.goto(server.told["url"].rstrip("/") + path)
                        page.wait_for_timeout(400)
                        folder.mkdir(parents=True, exist_ok=True)
                        page.screenshot(path=folder / f"{name}.png")


VIEWS = {
    "needs-you-desktop": ("/", "desktop"),
    "needs-you-phone": ("/", "phone"),
    "needs-you-phone-dark": ("/", "phone"),
    "tasks-desktop": ("/tasks", "desktop"),
    "task-desktop": ("/tasks/TASK-31", "desktop"),
    "task-phone": ("/tasks/TASK-31", "phone"),
    "board-desktop": ("/board?title=Release+2.4", "desktop"),
    "who-desktop": ("/who", "desktop"),
    "who-phone": ("/who", "phone"),
    "charts-desktop-dark": ("/charts?days=14", "desktop"),
    "charts-phone": ("/charts?days=14", "phone"),
}


def furnish(board: Coordinator, url: str) -> None:
    """A team that builds a shop: two weeks of work, some of it lost and done again, and a person who is asked."""
    agents = ["anna", "boris", "chen", "dana", "emil"]
    for name in agents:
        board.acting(agent=name).register(name=name, doing="")
    made: list[str] = []
    titles = iter(PAST)
    for day in range(14):
        for _ in range({0: 16, 4: 7, 8: 7}.get(day, 0)):
            title = next(titles)
            scopes = [f"shop/{title.split()[-1]}/**"]
            made.append(board.dispatch(title=title, role="worker", scopes=scopes).task.id)
        for nth in range(min(len(made), 1 + (day * 5 + 2) % 4)):
            who = board.acting(agent=agents[(day + nth) % 5])
            task = made.pop(0)
            if (day + nth) % 4 == 1:
                who.claim_task(task=task, lease_seconds=60)
                age(url, 61)
                board.sweep()
            claim = who.claim_task(task=task)
            age(url, 900 + 1_700 * ((day * 3 + nth) % 8))
            if nth == 2:
                who.complete(handle=claim, review=True, result="ready to be read")
                board.acting(agent="rhea").approve(task=task, note="clear and well tested")
            else:
                who.complete(handle=claim, result="done, tests are green")
        age(url, 54_000)
    present(board)


def present(board: Coordinator) -> None:
    """Today."""
    mine = {name: board.acting(agent=name) for name in ("anna", "boris", "chen", "dana", "emil", "rhea", "mira")}
    sessions = {}
    for name, doing in DOING.items():
        sessions[name] = board.acting(agent=name).register(name=name, doing=doing, stream=f"{name}/today")
        mine[name] = board.acting(agent=name, session=sessions[name].id)
    made = {}
    for key, title, body, role, priority, after, scopes in NOW:
        made[key] = (
            board.acting(agent="mira")
            .dispatch(
                title=title,
                body=body,
                role=role,
                priority=priority,
                depends_on=[made[each] for each in after],
                scopes=scopes,
            )
            .task.id
        )
    pay = mine["anna"].claim_task(task=made["pay"])
    mine["anna"].log_progress(handle=pay, note="The provider's sandbox answers; refunds are next.")
    mine["anna"].log_progress(
        handle=pay, note="Amounts are whole cents now: floats lost one in 0.3 %.", note_type="DECISION"
    )
    mail = mine["boris"].claim_task(task=made["mail"])
    mine["boris"].log_progress(handle=mail, note="Texts of 4 of 6 letters stand.")
    search = mine["chen"].claim_task(task=made["search"])
    mine["chen"].ask(
        title="Which search engine may we run?",
        action_owner="decision",
        task=search.handle,
        blocking=True,
        detail="The database's own search finds misspelt names in 71 % of the cases of last month. An engine of its own"
        " finds 96 %, and is one more thing to run and to back up.",
        impact="The search page stands still until this is said.",
        next_after="I build the index and measure it on last month's queries.",
        options=[
            {
                "label": "Stay with the database",
                "detail": "Nothing new to run; add the trigram index",
                "recommended": True,
            },
            {"label": "Run an engine", "detail": "About 40 € a month and one more backup"},
        ],
        context="Measured on 12,400 queries. p95 is 38 ms with the index, 9 ms with the engine.",
    )
    stock = mine["dana"].claim_task(task=made["stock"])
    mine["dana"].complete(handle=stock, review=True, result="shop/stock/count.py, 14 tests")
    mine["dana"].ask(
        title="May the stock count go live tonight?",
        action_owner="approval",
        task=made["stock"],
        impact="The next window is in a week.",
        options=["Go ahead", "Wait for the next window"],
    )
    mine["emil"].ask(
        title="Renew the certificate of the test shop",
        action_owner="task",
        next_step="Sign in at the registrar, choose “renew”, and confirm the letter that comes.",
        impact="It ends on Thursday; from then on no test of a payment runs.",
    )
    mine["boris"].ask(
        title="How do we address customers?",
        action_owner="decision",
        impact="Two of six letters wait for it.",
        options=[{"label": "By first name", "recommended": True}, {"label": "By title and name"}],
    )
    mine["mira"].respond(ask="ASK-4", choice="By first name", text="but never in invoices")
    mine["boris"].collect(ask="ASK-4")
    mine["boris"].take(ask="ASK-4")
    mine["anna"].ask(
        title="Which cards do we take?", action_owner="decision", impact="The form's logos.", options=["Two", "All"]
    )
    mine["mira"].respond(ask="ASK-5", choice="All")
    mine["emil"].ask(
        title="Keep the old price list?", action_owner="decision", impact="Space only.", options=["Keep", "Delete"]
    )
    mine["mira"].snooze(ask="ASK-6", until=datetime.now(UTC) + timedelta(hours=20))
    mine["emil"].ask(
        title="Which time zone do reports use?", action_owner="decision", impact="Reports.", options=["UTC", "Shop's"]
    )
    mine["mira"].respond(ask="ASK-7", choice="UTC")
    mine["emil"].collect(ask="ASK-7")
    mine["emil"].acknowledge(ask="ASK-7", response_seq=1, outcome="All reports say UTC, shop/reports/time.py")
    mine["emil"].claim_scopes(patterns=["docs/manual.md"], ttl_seconds=1_800)
    mine["emil"].acquire_lock(name="staging")
    mine["anna"].open_worktree(task=pay.handle, branch="pay/refunds", root="../shop-pay")
    mine["boris"].emit(
        event_type="learning", message="The letter renderer drops lines that begin with a dot: escape them."
    )
    rows = [{"label": label, "status": status, "note": note, **more} for label, status, note, more in RELEASE]
    board.acting(agent="rhea").board_upsert(
        title="Release 2.4", rows=[coordinate.records.GivenRow(**row) for row in rows]
    )
    board.acting(agent="mira").board_annotate(
        title="Release 2.4", label="Manual", text="Please show the refund page too."
    )
    quiet = [
        {"label": "Inventory", "status": "done"},
        {"label": "Orders", "status": "done"},
        {"label": "Customers", "status": "tracked"},
    ]
    board.acting(agent="emil").board_upsert(
        title="Move to the new database", rows=[coordinate.records.GivenRow(**row) for row in quiet]
    )


DOING = {
    "anna": "refunds in the payment form",
    "boris": "letters to customers",
    "chen": "search that forgives misspelling",
    "dana": "counting the stock",
    "emil": "reports and the manual",
}
PAST = [
    f"{verb} {thing}"
    for verb, thing in zip(
        ["Design", "Write", "Test", "Measure", "Document"] * 7,
        ["basket", "checkout", "prices", "invoices", "accounts", "reports", "images", "coupons", "delivery", "returns",
         "wishes", "reviews", "newsletter", "addresses", "taxes", "vouchers", "archive", "import", "export", "cookies",
         "menus", "filters", "sizes", "colours", "labels", "bundles", "gifts", "alerts", "backups", "roles"],
        strict=False,
    )
]  # fmt: skip
NOW = [
    ("pay", "Refunds in the payment form", "A customer who sends goods back gets the money by the way it came.\n\n- whole and partial refunds\n- an entry in the journal for each\n- no refund above what was paid", "worker", 10, [], ["shop/pay/**"]),
    ("mail", "Letters to customers", "Six letters: order, payment, parcel, delay, return, refund.", "worker", 20, [], ["shop/mail/**", "texts/*.md"]),
    ("search", "Search that forgives misspelling", "What people type is found, also with one letter wrong.", "worker", 20, [], ["shop/search/**"]),
    ("stock", "Count the stock each night", "The count of the shelves and ours, with what differs.", "worker", 30, [], ["shop/stock/**"]),
    ("journal", "Show refunds in the journal", "", "worker", 40, ["pay"], ["shop/journal/**"]),
    ("manual", "Manual for the new payment form", "With pictures.", "writer", 50, ["pay", "mail"], ["docs/manual.md"]),
    ("load", "Load test of the checkout", "2,000 baskets a minute for an hour.", "worker", 60, [], []),
    ("a11y", "Checkout by keyboard alone", "", "worker", 60, [], []),
    ("cache", "Cache the price list", "", "worker", 100, [], []),
]  # fmt: skip
RELEASE = [
    ("Payment form", "partial", "Form and journal stand, refunds are being built", {}),
    ("Letters", "partial", "4 of 6", {}),
    ("Search", "tracked", "Waits for a decision", {}),
    ("Stock count", "done", "Merged, in review", {}),
    ("Manual", "missing", "Begins when the form is final", {}),
    ("Terms of sale", "blocked", "The lawyer's text is here", {"next_step": "Read the two changed paragraphs and say yes or no", "action_owner": "approval", "impact": "No release without valid terms", "options": ["Yes", "No"]}),
    ("Old price import", "na", "Dropped in 2.3", {}),
]  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
