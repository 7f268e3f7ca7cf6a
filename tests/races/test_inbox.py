"""The inbox under many hands: no human answer is lost, overwritten unread, or handed over in an outdated version."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import counters, errors
from coordinate.db.engine import Tx
from coordinate.flows import claiming
from coordinate.inbox import asks
from tests.clock import age
from tests.races import arena
from tests.races.arena import Answer, Call, Go, Noticed, Weakness
from tests.tables import assert_sound

pytestmark = pytest.mark.race

COLOUR: dict[str, Any] = {
    "title": "Which colour?",
    "action_owner": "decision",
    "impact": "the logo waits",
    "options": ["red", "blue"],
}
# A moment that two responses share, and how each engine writes it and the clock.
NOON = {"sqlite": "'2030-01-01T12:00:00.000Z'", "postgresql": "timestamptz '2030-01-01T12:00:00Z'"}
CLOCK = {
    "sqlite": r"strftime\('%Y-%m-%dT%H:%M:%fZ', 'now'\)",
    "postgresql": r"\(SELECT date_trunc\('milliseconds', clock_timestamp\(\)\)\)",
}


def ask_many(url: str, count: int, *, first: str = "") -> list[str]:
    """So many asks, each with a first response if there is a word for it; their ids."""
    with arena.setting_up(url, "alice") as c:
        asked = [c.ask(**COLOUR).ask.id for _ in range(count)]
        for ask in asked if first else []:
            c.respond(ask=ask, text=first, agent="ann")
    return asked


def state_of(url: str) -> dict[str, tuple[Any, ...]]:
    """Of each ask: response_seq, delivered_seq, whether it is seen, whether it is handled, the current words."""
    found = arena.rows(
        url,
        "SELECT a.id, a.response_seq, a.delivered_seq, a.seen_at, a.handled_at, r.text FROM asks a"
        " LEFT JOIN ask_responses r ON r.ask_id = a.id AND r.seq = a.response_seq",
    )
    return {
        ask: (seq, handed, seen is not None, done is not None, text) for ask, seq, handed, seen, done, text in found
    }


# --- chat against inbox -----------------------------------------------------------------------------------------------


def answer_twice(url: str, rounds: int, weakness: Weakness | None = None) -> Counter[str]:
    asked = ask_many(url, rounds)
    chat: list[Call] = [("answer", {"ask": ask, "text": "chat", "agent": "alice"}) for ask in asked]
    inbox: list[Call] = [("respond", {"ask": ask, "text": "inbox", "agent": "ann"}) for ask in asked]
    answers = arena.rounds(url, chat, inbox, weakness=weakness, each_first=True)
    stands = state_of(url)
    for ask, (chatted, responded) in zip(asked, answers, strict=True):
        assert responded.ok
        assert chatted.code in ("", "unread_inbox_answer")
        first = int(chatted.ok)
        assert stands[ask] == (first + 1, first, False, True, "inbox"), f"{ask} after {chatted.code or 'chat first'}"
    assert_sound(url)
    return Counter(chatted.code for chatted, _ in answers)


def test_of_a_chat_answer_and_one_from_the_inbox_the_inboxs_stands_and_is_unseen(board_url: str) -> None:
    """Statement 2, QL-24: in 200 rounds, whichever comes first."""
    assert set(answer_twice(board_url, 200)) == {"", "unread_inbox_answer"}


def test_a_chat_answer_that_does_not_look_overwrites_the_inboxs(noticed: Noticed) -> None:
    guard = r" AND \(asks\.handled_at IS NULL OR \(EXISTS .*?(?= RETURNING)"
    noticed(lambda url: answer_twice(url, 30, arena.cut("ask_answer", guard)))


# --- replacement against delivery -------------------------------------------------------------------------------------


def replace_while_handing_over(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round an agent collects the first word, while the human replaces it."""
    asked = ask_many(url, rounds, first="old")
    collect: list[Call] = [("pending", {"agent": "alice", "after": number, "limit": 1}) for number in range(rounds)]
    respond: list[Call] = [("respond", {"ask": ask, "text": "new", "agent": "ann"}) for ask in asked]
    answers = arena.rounds(url, collect, respond, weakness=weakness)
    stands = state_of(url)
    noted = dict(arena.rows(url, "SELECT ask_id, max(seq) FROM ask_deliveries GROUP BY ask_id"))
    for ask, (collected, responded) in zip(asked, answers, strict=True):
        assert responded.ok
        assert collected.ok
        assert len(collected.value.responses) == 1
        (handed,) = collected.value.responses
        assert handed.response is not None
        word, seq = handed.response.text, handed.response.seq
        assert (handed.id, seq) == (ask, 2 if word == "new" else 1)
        assert noted[ask] == seq, f"response {seq} of {ask} was handed over, {noted[ask]} is noted"
        # What was handed over is what counts as handed over: an old word only before the new one came.
        assert stands[ask] == (2, seq, word == "new", True, "new"), f"{word!r} of {ask} was handed over"
    with arena.setting_up(url, "bob") as c:
        page = c.pending(limit=1)
        while page.next is not None:
            assert [each.response and each.response.text for each in page.responses] == ["new"]
            page = c.pending(limit=1, after=page.next)
    assert_sound(url)


def test_a_replaced_word_is_never_handed_over_as_the_current_one(board_url: str) -> None:
    """Statement 7, QL-24: in 200 rounds."""
    replace_while_handing_over(board_url, 200)


def test_nor_when_both_words_carry_the_same_time(board_url: str, engine: str) -> None:
    """Statement 7: what is pinned is a number, so that a clock that stands still does no harm."""
    stopped = [arena.cut(name, CLOCK[engine], put=NOON[engine]) for name in ("ask_respond", "response_insert")]
    replace_while_handing_over(board_url, 200, arena.together(*stopped))
    moments = arena.rows(board_url, "SELECT count(DISTINCT created_at) FROM ask_responses WHERE seq = 2")
    assert moments == [(1,)]


def test_without_the_lock_an_old_word_is_handed_over_as_the_new_one(engine: str, noticed: Noticed) -> None:
    """Guards: on Postgres the locked rows, on SQLite that the poll begins immediate."""
    guard = {"sqlite": arena.no_transactions, "postgresql": arena.cut("pending_lock", " FOR UPDATE")}[engine]
    weakness = arena.together(guard, arena.slow_before("asks_seen", 0.003))
    noticed(lambda url: replace_while_handing_over(url, 30, weakness))


# --- one live ask -----------------------------------------------------------------------------------------------------


def asker(url: str, number: int, calls: list[dict[str, Any]]) -> Callable[[Go], list[tuple[bool, str]]]:
    """Asks in each round; whether it opened, and which ask lives then."""

    def live(go: Go) -> list[tuple[bool, str]]:
        said = []
        with coordinate.connect(url, agent=f"agent-{number}") as c:
            c.stats()
            for call in calls:
                go()
                try:
                    asked = c.ask(**COLOUR | call)
                    said.append((not asked.already, asked.ask.id))
                except errors.AlreadyAsked as refused:
                    said.append((False, str(refused.facts["ask_id"])))
        return said

    return live


def ask_at_once(url: str, calls: list[dict[str, Any]], weakness: Weakness | None = None) -> None:
    with arena.setting_up(url) as c:
        arena.dispatch_many(c, len(calls))
    for answers in zip(*arena.run([asker(url, n, calls) for n in range(6)], weakness=weakness), strict=True):
        assert sum(opened for opened, _ in answers) == 1, answers
        assert len({ask for _, ask in answers}) == 1, answers
    twice = "SELECT surface_id FROM asks WHERE closed_at IS NULL GROUP BY surface, surface_id HAVING count(*) > 1"
    assert arena.rows(url, twice) == []
    assert arena.rows(url, "SELECT count(*) FROM asks") == [(len(calls),)]
    assert_sound(url)


def test_of_6_asks_on_one_task_at_once_one_opens_and_the_others_are_told_its_id(board_url: str) -> None:
    """Statement 11: in 40 rounds."""
    ask_at_once(board_url, [{"task": f"TASK-{number}"} for number in range(1, 41)])


def test_of_6_asks_under_one_key_at_once_one_opens(board_url: str) -> None:
    """Statement 11."""
    ask_at_once(board_url, [{"dedup_key": f"k{number}"} for number in range(20)])


def test_without_the_databases_constraint_a_key_opens_two(engine: str, noticed: Noticed) -> None:
    def play(url: str) -> None:
        arena.change(url, "DROP INDEX idx_asks_dedup")
        weakness = arena.no_transactions if engine == "sqlite" else None
        ask_at_once(url, [{"dedup_key": f"k{number}"} for number in range(10)], weakness)

    noticed(play)


def ask_between(url: str, weakness: Weakness | None = None) -> None:
    """Another asks under the same key just before the insert, and is dismissed just before the look that explains.

    On SQLite writers come one by one, so nobody comes in between.
    """
    key: dict[str, Any] = {**COLOUR, "dedup_key": "colour"}

    def late(go: Go) -> tuple[str, bool]:
        one, steps = Tx.one, ["counter_take", "ask_insert"]

        def paused(self: Tx, name: str, /, **params: Any) -> Any:
            if name == "counter_take" and name in steps:
                steps.remove(name)
                go()
                go()
            row = one(self, name, **params)
            if name == "ask_insert" and row is None and name in steps:
                steps.remove(name)
                go()
                go()
            return row

        Tx.one = paused  # type: ignore[method-assign]
        with coordinate.connect(url, agent="alice") as c:
            asked = c.ask(**key)
        assert not steps, "nobody came in between"
        return asked.ask.id, asked.already

    def early(go: Go) -> str:
        with coordinate.connect(url, agent="bob") as c:
            go()
            asked = c.ask(**key).ask.id
            go()
            go()
            c.dismiss(ask=asked, agent="ann")
            go()
            return asked

    opened, other = arena.run([late, early], weakness=weakness)
    assert opened[0] != other and not opened[1]
    assert arena.rows(url, "SELECT id FROM asks WHERE closed_at IS NULL") == [(opened[0],)]
    assert_sound(url)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_an_ask_opens_when_what_was_in_its_way_is_gone_before_it_looks(board_url: str) -> None:
    ask_between(board_url)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_an_ask_that_does_not_try_again_fails_for_nothing(noticed: Noticed) -> None:
    noticed(lambda url: ask_between(url, lambda: setattr(asks, "OPEN_TRIES", 1)))


# --- the human takes a word back --------------------------------------------------------------------------------------


def take_back_while_picked_up(url: str, rounds: int, weakness: Weakness | None = None) -> Counter[str]:
    asked = ask_many(url, rounds, first="word")
    pick_up: list[Call] = [("collect", {"ask": ask, "agent": "alice"}) for ask in asked]
    take_back: list[Call] = [("withdraw_response", {"ask": ask, "agent": "ann"}) for ask in asked]
    answers = arena.rounds(url, pick_up, take_back, weakness=weakness, each_first=True)
    stands = state_of(url)
    for ask, (picked, back) in zip(asked, answers, strict=True):
        handed = picked.value.response is not None
        assert back.code == ("already_seen" if handed else ""), f"{ask}: handed {handed}, taken back {back.ok}"
        assert stands[ask] == ((1, 1, True, True, "word") if handed else (2, 0, False, False, ""))
    assert_sound(url)
    return Counter(back.code for _, back in answers)


def test_a_pickup_wins_against_a_withdrawal_and_the_word_survives(board_url: str) -> None:
    """Statement 5: exactly one of the two happens, in 100 rounds."""
    assert set(take_back_while_picked_up(board_url, 100)) == {"", "already_seen"}


def test_a_wait_that_meets_a_withdrawal_goes_on_waiting(board_url: str) -> None:
    """It returns a response, or in vain; never an ask that is open again."""
    asked = ask_many(board_url, 40, first="word")
    waits: list[Call] = [("wait_ask", {"ask": ask, "agent": "alice", "wait": 0.05}) for ask in asked]
    take_back: list[Call] = [("withdraw_response", {"ask": ask, "agent": "ann"}) for ask in asked]
    for waited, back in arena.rounds(board_url, waits, take_back):
        assert (waited.value is None) == (back.code == "")
        assert waited.value is None or waited.value.response is not None


def test_without_its_guard_a_word_is_taken_back_from_who_was_handed_it(noticed: Noticed) -> None:
    guard = arena.cut("ask_take_back", r" AND asks\.delivered_seq < asks\.response_seq")
    noticed(lambda url: take_back_while_picked_up(url, 20, guard))


# --- crashes ----------------------------------------------------------------------------------------------------------


def die_with_the_answer(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """An agent that was handed responses dies before it acknowledges, or before the handing over is committed."""
    asked = ask_many(url, rounds, first="word")

    def die(*, early: bool) -> Callable[[Go], None]:
        def live(go: Go) -> None:
            with coordinate.connect(url, agent="victim") as c:
                if early:
                    arena.Tx.finish = lambda tx: arena.kill_myself()  # type: ignore[method-assign]
                go()
                assert c.pending(limit=100).responses
                arena.kill_myself()

        return live

    ended = arena.run([die(early=False), die(early=True)], weakness=weakness)
    assert ended == [arena.KILLED, arena.KILLED]

    def heir(go: Go) -> list[str]:
        with coordinate.connect(url, agent="heir") as c:
            go()
            found = c.pending(limit=100).responses
            for each in found:
                c.acknowledge(ask=each.id, response_seq=each.response_seq, outcome="done so")
            return [each.id for each in found]

    assert arena.run([heir], weakness=weakness) == [asked]
    assert arena.rows(url, "SELECT count(*) FROM asks WHERE handled_at IS NOT NULL AND outcome = ''") == [(0,)]
    assert_sound(url)


def test_what_a_dead_agent_was_handed_the_next_session_is_handed_again(board_url: str) -> None:
    """Statement 6, QL-24: no answer without either outcome or redelivery."""
    die_with_the_answer(board_url, 20)


def test_an_inbox_that_hands_out_what_is_unseen_alone_loses_it(noticed: Noticed) -> None:
    unseen = arena.cut("pending_lock", r"asks\.outcome = ''", put="asks.outcome = '' AND asks.seen_at IS NULL")
    noticed(lambda url: die_with_the_answer(url, 3, unseen))


# --- acting on it -----------------------------------------------------------------------------------------------------


def finish_while_the_human_speaks(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round the holder finishes a task with the answer it has, while the human gives another."""
    with arena.setting_up(url, "alice") as c:
        arena.dispatch_many(c, rounds)
        held = arena.claim_all(c, agent="alice")
        asked = [c.ask(**COLOUR, task=handle, blocking=True).ask.id for handle in held.values()]
        for ask in asked:
            c.respond(ask=ask, text="old", agent="ann")
        held = arena.claim_all(c, agent="alice")
    finish: list[Call] = [
        ("complete", {"handle": handle, "agent": "alice", "result": "old"}) for handle in held.values()
    ]
    speak: list[Call] = [("respond", {"ask": ask, "text": "new", "agent": "ann"}) for ask in asked]
    seen = Counter(outcome(*answers) for answers in arena.rounds(url, finish, speak, weakness=weakness))
    assert set(seen) <= {("", "closed"), ("unread_inbox_answer", "")}, seen
    assert_sound(url)


def outcome(one: Answer, other: Answer) -> tuple[str, str]:
    return one.code, other.code


def test_work_is_never_finished_over_a_later_word(board_url: str) -> None:
    """Statement 9: either the human is told that it is closed, or the holder that a word waits."""
    finish_while_the_human_speaks(board_url, 60)


def test_without_the_lock_of_the_task_a_later_word_is_finished_over(engine: str, noticed: Noticed) -> None:
    """Guards: the task's row is locked before its ask, and what closes names the response that it means."""
    unpinned = arena.cut("ask_close", r" AND \(asks\.handled_at IS NULL OR .*?(?= RETURNING)")
    unlocked = {
        "sqlite": arena.no_transactions,
        "postgresql": arena.together(arena.cut("task_lock", " FOR UPDATE"), arena.cut("ask_lock", " FOR UPDATE")),
    }[engine]
    weakness = arena.together(unpinned, unlocked, arena.slow_before("ask_close", 0.003))
    noticed(lambda url: finish_while_the_human_speaks(url, 20, weakness))


def take_at_once(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    asked = ask_many(url, rounds, first="word")
    scripts: list[list[Call]] = [[("take", {"ask": ask, "agent": f"agent-{n}"}) for ask in asked] for n in range(4)]
    for answers in arena.rounds(url, *scripts, weakness=weakness):
        assert Counter(answer.code for answer in answers) == {"": 1, "held_by_another": 3}


def test_of_several_that_take_a_response_at_once_one_gets_it(board_url: str) -> None:
    take_at_once(board_url, 30)


def test_without_its_guard_two_act_on_one_response(noticed: Noticed) -> None:
    guard = arena.cut("ask_take", r" AND \(asks\.taken_until IS NULL .*?(?= RETURNING)")
    noticed(lambda url: take_at_once(url, 3, guard))


def take_or_claim(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round one agent takes the response that brings a task back, and another claims the task."""
    with arena.setting_up(url, "alice") as c:
        asked = [c.ask(**COLOUR, task=handle, blocking=True).ask.id for handle in _hold_many(c, rounds)]
        for ask in asked:
            c.respond(ask=ask, text="word", agent="ann")
    age(url, 901)  # it is kept for alice no longer
    take: list[Call] = [("take", {"ask": ask, "agent": "bob"}) for ask in asked]
    claim: list[Call] = [("claim_task", {"task": f"TASK-{n}", "agent": "alice"}) for n in range(1, rounds + 1)]
    seen = Counter(
        first.code + "," + second.code for first, second in arena.rounds(url, take, claim, weakness=weakness)
    )
    assert set(seen) <= {",held_by_another", "held_by_another,"}, seen
    assert_sound(url)
    return seen


def _hold_many(c: coordinate.Coordinator, count: int) -> list[str]:
    arena.dispatch_many(c, count)
    return list(arena.claim_all(c, agent="alice").values())


def test_either_the_response_is_taken_or_the_task_is_claimed(board_url: str) -> None:
    """Both are locked, the task first, and whoever comes second is told who acts."""
    take_or_claim(board_url, 40)


def test_a_claim_that_does_not_look_acts_beside_who_took_the_response(noticed: Noticed) -> None:
    def guard() -> None:
        claiming._left_to_who_acts = lambda *given: None

    noticed(lambda url: take_or_claim(url, 10, guard))


def claim_while_an_answer_is_read(url: str, weakness: Weakness | None = None) -> None:
    """Somebody has the ask with the lowest number locked, as `pending` has it that goes on to the next.

    A claim of several that stood in the queue the other way round waits for that one, and has none of the others.
    """
    with arena.setting_up(url, "alice") as c:
        arena.dispatch_many(c, 2)
        for task in ("TASK-2", "TASK-1"):
            ask = c.ask(**COLOUR, task=c.claim_task(task=task).handle, blocking=True).ask.id
            c.respond(ask=ask, text="word", agent="ann")

    def claim(go: Go) -> list[str]:
        with coordinate.connect(url, agent="alice") as c:
            go()
            return [each.handle for each in c.claim_batch(role="worker", count=2)]

    def read(go: Go) -> list[tuple[Any, ...]]:
        with psycopg.connect(url) as reading, psycopg.connect(url, autocommit=True) as looking:
            reading.execute("SELECT id FROM asks WHERE id = 'ASK-1' FOR UPDATE")
            go()
            blocked = "SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
            while not looking.execute(blocked, [reading.info.backend_pid]).fetchall():
                time.sleep(0.01)
            return looking.execute("SELECT id FROM asks WHERE id = 'ASK-2' FOR UPDATE SKIP LOCKED").fetchall()

    assert arena.run([claim, read], weakness=weakness) == [["TASK-1@2", "TASK-2@2"], [("ASK-2",)]]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_claim_of_several_and_a_reader_of_answers_wait_for_each_other_in_no_circle(board_url: str) -> None:
    claim_while_an_answer_is_read(board_url)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_claim_that_locks_asks_in_another_order_is_noticed(noticed: Noticed) -> None:
    backwards = arena.cut("asks_lock", r"ORDER BY asks\.number", put="ORDER BY asks.number DESC")
    noticed(lambda url: claim_while_an_answer_is_read(url, backwards))


@pytest.mark.parametrize("verb", ["withdraw", "acknowledge"])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_who_is_refused_for_a_take_is_told_so_also_when_it_is_over_by_the_look(board_url: str, verb: str) -> None:
    """Its time may end between the statement that decides and the look that explains."""
    given = {"withdraw": {"reason": "done"}, "acknowledge": {"response_seq": 1, "outcome": "done"}}
    (ask,) = ask_many(board_url, 1, first="word")
    with arena.setting_up(board_url, "bob") as c:
        session = c.register(name="bob").id
        c.pending(agent="alice")
        c.take(ask=ask, session=session)

    def finish(go: Go) -> tuple[str, str]:
        arena.before("ask_for", lambda tx: tx.run("asks_let_go", sessions=[session]))  # it is over by now
        with coordinate.connect(board_url, agent="alice") as c:
            try:
                getattr(c, verb)(ask=ask, **given[verb])
            except errors.Held as error:
                return error.code, error.message
        return "", ""

    ((code, message),) = arena.run([finish])
    assert code == "held_by_another" and message.startswith(f"bob acts on {ask}")


# --- moves of tasks whose asks share a key ----------------------------------------------------------------------------


def move_to_one_project(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round two tasks whose asks share a key go to one project, and a third is asked about under it there."""
    with arena.setting_up(url, "alice") as c:
        for number in range(1, rounds + 1):
            for project in ("a", "b", "to"):
                task = c.dispatch(title="t", role="worker", project=project).task.id
                if project != "to":
                    c.ask(**COLOUR, task=task, dedup_key=f"k{number}")
    moves: list[list[Call]] = [
        [("set_project", {"tasks": [f"TASK-{3 * n + k}"], "project": "to", "agent": "bob"}) for n in range(rounds)]
        for k in (1, 2)
    ]
    ask: list[Call] = [("ask", COLOUR | {"project": "to", "dedup_key": f"k{n + 1}"}) for n in range(rounds)]
    for answers in arena.rounds(url, *moves, ask, weakness=weakness):
        assert all(answer.ok for answer in answers), answers
    live = "SELECT project, count(*), count(DISTINCT dedup_key), count(dedup_key) FROM asks GROUP BY project"
    ((project, count, keys, keyed),) = arena.rows(url, live)
    assert (project, keys, keyed) == ("to", rounds, rounds)
    assert 2 * rounds <= count <= 3 * rounds
    assert_sound(url)


def test_of_asks_that_move_at_once_one_keeps_the_key(board_url: str) -> None:
    move_to_one_project(board_url, 20)


def test_without_the_lock_a_move_fails_on_the_key(engine: str, noticed: Noticed) -> None:
    """On SQLite one statement looks and moves, and nobody else writes meanwhile."""

    def unlocked() -> None:
        take = counters.take
        counters.take = lambda tx, kind, count=1: take(tx, kind, count) if count else (0, None)  # type: ignore[assignment,return-value]

    if engine == "postgresql":
        noticed(lambda url: move_to_one_project(url, 20, unlocked))


# --- asked again, while the task is held ------------------------------------------------------------------------------


def ask_again_while_it_is_released(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round the holder gives a task back, while the ask that it waits for is put in other words."""
    with arena.setting_up(url, "alice") as c:
        asked = [c.ask(**COLOUR, task=handle, blocking=True).ask.id for handle in _hold_many(c, rounds)]
        for ask in asked:
            c.respond(ask=ask, kind="clarify", text="which?", agent="ann")
        held = arena.claim_all(c, agent="alice")
    release: list[Call] = [("release", {"handle": handle, "agent": "alice"}) for handle in held.values()]
    revise: list[Call] = [("revise", {"ask": ask, "detail": "this one", "agent": "alice"}) for ask in asked]
    for answers in arena.rounds(url, release, revise, weakness=weakness):
        assert all(answer.ok for answer in answers), answers
    assert arena.rows(url, "SELECT status, count(*) FROM tasks GROUP BY status") == [("BLOCKED", rounds)]
    assert_sound(url)


def test_a_task_waits_whether_it_is_asked_again_before_or_after_its_hold_ends(board_url: str) -> None:
    ask_again_while_it_is_released(board_url, 40)


def test_without_the_locks_it_is_handed_out_while_a_human_is_asked(engine: str, noticed: Noticed) -> None:
    unlocked = {
        "sqlite": arena.no_transactions,
        "postgresql": arena.together(arena.cut("task_lock", " FOR UPDATE"), arena.cut("ask_lock", " FOR UPDATE")),
    }[engine]
    weakness = arena.together(unlocked, arena.slow_before("ask_again", 0.003))
    noticed(lambda url: ask_again_while_it_is_released(url, 20, weakness))
