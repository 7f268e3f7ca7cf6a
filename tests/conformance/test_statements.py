"""The compiled SQL: what Core prints, what each engine accepts, and a claim that walks an index without a sort."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import Coordinator
from coordinate.compile_sql import FOLDER, ROOMS, compile_all
from coordinate.db.compiled import Library
from coordinate.db.dialect import Postgres, SQLite
from tests.tables import as_owner, connect, is_postgres, run


def test_the_files_equal_what_core_prints(engine: str) -> None:
    assert (FOLDER / f"{engine}.sql").read_text(encoding="utf-8") == compile_all(engine), (
        "run: python -m coordinate.compile_sql"
    )


def test_every_declared_statement_can_be_found_by_name(engine: str) -> None:
    declared = [each.name for room in ROOMS for each in room.declared if each.only in ("", engine)]
    assert Library(engine).names() == declared


def test_no_value_of_a_statement_was_made_up_by_the_compiler(engine: str) -> None:
    """Every bind is one that a caller gives, and all that a header promises stands in the text."""
    library = Library(engine)
    for name in library.names():
        statement = library[name]
        binds = set(re.findall(r"(?<!:):([a-z_][a-z0-9_]*)", re.sub(r"'[^']*'", "", statement.sql)))
        assert binds == set(statement.takes), name
        assert "param_" not in statement.sql, name
        assert not re.search(r"\banon_\d", statement.sql), name


def test_the_engine_accepts_every_statement(board_url: str, engine: str) -> None:
    library = Library(engine)
    with closing(connect(board_url)) as connection:
        for name in library.names():
            statement = library[name]
            if not is_postgres(board_url):
                connection.execute(f"EXPLAIN {statement.sql}", dict.fromkeys(statement.takes))
                continue
            sql, _ = Postgres(board_url).binder(statement)
            answer = connection.pgconn.prepare(b"", sql.encode())
            assert answer.status == psycopg.pq.ExecStatus.COMMAND_OK, f"{name}: {answer.error_message.decode()}"


def test_every_result_has_the_columns_that_its_header_says(board_url: str, engine: str) -> None:
    library = Library(engine)
    with closing(connect(board_url)) as connection:
        for name in library.names():
            statement = library[name]
            if not is_postgres(board_url):
                connection.execute("BEGIN")
                asked = dict.fromkeys(statement.takes, 0)
                try:
                    columns = connection.execute(f"SELECT * FROM ({statement.sql})", asked).description or ()
                except Exception:
                    columns = None  # a change cannot stand in a sub-select
                connection.execute("ROLLBACK")
                found = None if columns is None else [column[0] for column in columns]
            else:
                connection.pgconn.prepare(b"", Postgres(board_url).binder(statement)[0].encode())
                described = connection.pgconn.describe_prepared(b"")
                found = [described.fname(number).decode() for number in range(described.nfields)]
            assert found in (None, list(statement.gives)), name


# --- the claim's plan -------------------------------------------------------------------------------------------------

# 5,000 urgent tasks that wait for one, 1,000 that others hold, 13,998 whose time has not come; behind them, one free.
FILL = (
    """INSERT INTO tasks (id, number, title, status, role_boundary, priority, unmet_dependencies, parked, parked_until,
                          not_before, assigned_agent, lease_until, created_at, updated_at)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
       SELECT 'TASK-' || i, i, 'T',
              CASE WHEN i BETWEEN 5002 AND 6001 THEN 'IN_PROGRESS' ELSE 'TODO' END,
              CASE WHEN i = 1 THEN 'human' ELSE 'worker' END,
              CASE WHEN i = 20000 THEN 500 ELSE 1 END,
              CASE WHEN i BETWEEN 2 AND 5001 THEN 1 ELSE 0 END,
              CASE WHEN i BETWEEN 6002 AND 19999 THEN 'later' ELSE '' END,
              CASE WHEN i BETWEEN 6002 AND 19999 THEN {later} END,
              CASE WHEN i BETWEEN 6002 AND 19999 THEN {later} END,
              CASE WHEN i BETWEEN 5002 AND 6001 THEN 'agent-' || (i % 50) END,
              CASE WHEN i BETWEEN 5002 AND 6001 THEN {later} END,
              {now}, {now} FROM n""",
    """INSERT INTO task_dependencies (task_id, depends_on_task_id, met)
       SELECT id, 'TASK-1', false FROM tasks WHERE unmet_dependencies = 1""",
    "UPDATE counters SET value = 20000 WHERE kind = 'task'",
    "ANALYZE",
)
TIMES = {
    "sqlite": {"now": "'2026-01-01T00:00:00.000Z'", "later": "'2090-01-01T00:00:00.000Z'"},
    "postgresql": {
        "now": "CAST('2026-01-01T00:00:00Z' AS timestamptz)",
        "later": "CAST('2090-01-01T00:00:00Z' AS timestamptz)",
    },
}


@pytest.fixture
def crowd(board_url: str, engine: str) -> str:
    run(as_owner(board_url), *(statement.format(**TIMES[engine]) for statement in FILL))
    return board_url


def test_a_free_task_behind_20000_others_is_found(crowd: str) -> None:
    with coordinate.connect(crowd, agent="alice") as board:
        assert board.claim_next(role="worker").task.id == "TASK-20000"
        assert board.claim_next(role="worker") is None
        board.complete(handle=board.claim_next(role="human"))
        assert [claim.task.number for claim in board.claim_batch(role="worker", count=3)] == [2, 3, 4]


GIVEN = {
    "role": "worker",
    "project": "default",
    "limit": 1,
    "lease_seconds": None,
    "agent": "alice",
    "session": None,
    "task_id": "TASK-9",
    "from_task": "TASK-9",
    "to_task": "TASK-8",
    "status": "DONE",
    "needle": None,
    "after": None,
    "before": None,
    "before_number": None,
    "attempt": 1,
    "result": None,
    "kind": None,
    "resource": "l",
    "asked_by": None,
    "worktree_id": 1,
    "full": False,
    "reader": "alice",
}


def plan_of(url: str, name: str, **known: Any) -> list[str]:
    """The plan of a statement as the engine runs it; on Postgres the generic one, which knows no value."""
    with closing(connect(url)) as connection:
        if not is_postgres(url):
            sql, bind = SQLite(url).binder(Library("sqlite")[name])
            values = {key: (GIVEN | known)[key] for key in Library("sqlite")[name].takes}
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bind(values))]
        statement = Library("postgresql")[name]
        sql, bind = Postgres(url).binder(statement)
        connection.execute(f"PREPARE asked AS {sql}")
        plans = []
        for mode in ("force_generic_plan", "force_custom_plan"):
            connection.execute(f"SET plan_cache_mode = {mode}")
            values = bind({key: (GIVEN | known)[key] for key in statement.takes})
            shown = ", ".join("NULL" if value is None else f"'{value}'" for value in values)
            asked = f"EXECUTE asked({shown})" if values else "EXECUTE asked"
            plans += [row[0] for row in connection.execute(f"EXPLAIN {asked}")]
        connection.execute("DEALLOCATE asked; RESET plan_cache_mode")  # behind a pooler the session is not ours
        return plans


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim_at_once", "idx_tasks_claim"),
        ("claim_at_once", "idx_tasks_lease"),
        ("claim_at_once_project", "idx_tasks_claim_project"),
        ("claim_next", "idx_tasks_claim"),
        ("claim_next_project", "idx_tasks_claim_project"),
        ("claim_next_many", "idx_tasks_claim"),
        ("queue_due", "idx_tasks_lease"),
        ("queue_due", "idx_tasks_parked"),
        ("queue_take_back", "idx_tasks_lease"),
        ("queue_unpark", "idx_tasks_parked"),
        ("queue_next_due", "idx_tasks_lease"),
        ("handles_held", "idx_tasks_holder"),
        ("tasks_finished", "idx_tasks_finished"),
        ("review_count", "idx_tasks_review"),
    ],
)
def test_the_hot_statements_walk_their_index_and_sort_nothing(crowd: str, name: str, index: str) -> None:
    plan = plan_of(crowd, name)
    text = "\n".join(plan)
    assert re.search(rf"\b{index}\b", text), text
    assert not re.search(r"\bSort\b|TEMP B-TREE|Seq Scan on tasks|SCAN tasks(?! USING)", text), text


def test_the_names_of_projects_are_found_without_reading_all_tasks(crowd: str) -> None:
    """Every view of the page lists them: of 200,000 finished tasks a look through the index took 50 ms."""
    text = "\n".join(plan_of(crowd, "projects_list"))
    assert "idx_tasks_project" in text, text
    assert not re.search(r"Seq Scan on tasks|SCAN tasks", text), text
    with coordinate.connect(crowd, agent="alice") as board:
        for project in ("z", "b", "b"):
            board.dispatch(title="T", role="worker", project=project)
        board.ask(title="Told", kind="note", project="a")
        board.set_project_defaults(name="c")
        assert [each.name for each in board.list_projects()] == ["a", "b", "c", "default", "z"]
        assert [each.name for each in board.list_projects(limit=2)] == ["a", "b"]


def test_the_hot_statements_walk_their_index_though_nobody_counted_what_is_held(crowd: str, engine: str) -> None:
    """A board that was analyzed while it was quiet: reading all that is held made 50 clients five times slower."""
    held, later = "number BETWEEN 5002 AND 6001", TIMES[engine]["later"]
    run(
        as_owner(crowd),
        *(["ALTER TABLE tasks SET (autovacuum_enabled = off)"] if engine == "postgresql" else []),
        f"UPDATE tasks SET status = 'TODO', assigned_agent = NULL, lease_until = NULL WHERE {held}",
        "ANALYZE",
        f"UPDATE tasks SET status = 'IN_PROGRESS', assigned_agent = 'a', lease_until = {later} WHERE {held}",
    )
    for name in ("queue_due", "queue_next_due"):
        text = "\n".join(plan_of(crowd, name))
        assert re.search(r"\bidx_tasks_lease\b", text), text
        assert not re.search(r"\bSort\b|TEMP B-TREE|idx_tasks_(session|holder)", text), text
    for name in (
        "claim_at_once",
        "claim_next",
        "claim_task",
        "claim_renew",
        "claim_complete",
        "task_approve",
        "queue_take_back",
    ):
        text = "\n".join(plan_of(crowd, name))  # the row that was picked, or told, is found by its id
        assert re.search(r"\bpk_tasks\b" if engine == "postgresql" else "INDEX sqlite_autoindex_tasks_1", text), text
        assert not re.search(r"idx_tasks_(session|holder|review|claim_project)", text), text


# What an operation sends, with a stroke where it waits for the server: at the end of all for the commit.
SENT: dict[str, tuple[str, Callable[[Coordinator, str, str], object]]] = {
    "dispatch": (
        "projects_attempts counter_take | task_insert change_told |",
        lambda c, held, run: c.dispatch(title="T", role="worker"),
    ),
    "claim": ("claim_at_once | handles_held claim_told |", lambda c, held, run: c.claim_next(role="worker")),
    "note": ("claim_renew | note_told |", lambda c, held, run: c.log_progress(handle=held, note="half")),
    "renew": ("claim_renew | change_told |", lambda c, held, run: c.extend_lease(handle=held)),
    "keep": ("claim_keep | move_state | |", lambda c, held, run: c.keep_alive(handle=held)),
    "comment": ("note_write task | change_told |", lambda c, held, run: c.comment(task=held[:-2], text="seen")),
    "release": ("claim_release | leave_told |", lambda c, held, run: c.release(handle=held)),
    "submit": ("claim_submit | leave_told |", lambda c, held, run: c.complete(handle=held, review=True)),
    "complete": ("claim_complete | dependents_release leave_told |", lambda c, held, run: c.complete(handle=held)),
    "heartbeat": (
        "session_due | session_heartbeat session session_past_leases session_renew_leases session_renew_tasks |"
        " move_state | |",
        lambda c, held, run: c.heartbeat(session=run),
    ),
    "read the log": (
        "events_number | move_state | | feed_head cursor | events_after feed_head | cursor_deliver move_state | |",
        lambda c, held, run: c.next_events(consumer="reader"),
    ),
}


# 5,000 leases that ended, of 100 sessions; behind them, one that lives.
ENDED = (
    "INSERT INTO agents (name, kind, created_at) VALUES ('alice', 'agent', {now})",
    """INSERT INTO sessions (id, agent, project, ttl_seconds, started_at, heartbeat_at, last_call_at)
       WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
       SELECT 's' || i, 'alice', 'default', 600, {now}, {now}, {now} FROM n""",
    """INSERT INTO leases (kind, resource, agent, session_id, fence, ttl_seconds, acquired_at, expires_at, released_at,
                           release_reason)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)
       SELECT CASE WHEN i % 2 = 0 THEN 'lock' ELSE 'scope' END, 'r' || i, 'alice', 's' || (i % 100), i, 900, {now},
              {later}, CASE WHEN i < 5001 THEN {now} END, CASE WHEN i < 5001 THEN 'released' END FROM n""",
    "ANALYZE",
)


# 5,000 asks that are closed, of a project and task, each with words beside it; behind them, one that is open.
CLOSED = (
    """INSERT INTO asks (id, number, project, surface, surface_id, step_no, title, asked_by, created_at, updated_at,
                         kind, action_owner, revision, state, outcome, outcome_at, closed_at, close_reason)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)
       SELECT 'ASK-' || i, i, 'p', 'task', 'TASK-1', i, 'x', 'alice', {now}, {now}, 'question', 'task', 1,
              CASE WHEN i < 5001 THEN 'closed' ELSE 'open' END, CASE WHEN i < 5001 THEN 'x' ELSE '' END,
              CASE WHEN i < 5001 THEN {now} END, CASE WHEN i < 5001 THEN {now} END,
              CASE WHEN i < 5001 THEN 'withdrawn' ELSE '' END FROM n""",
    """INSERT INTO annotations (id, number, project, ask_id, author, text, created_at, closed_at, close_reason)
       SELECT 'ANN-' || number, number, project, id, 'ann', 'x', created_at, closed_at, close_reason FROM asks
       WHERE closed_at IS NOT NULL""",
    "ANALYZE",
)
UNFINISHED = (
    *("pending_lock", "annotations_lock", "asks_unseen", "asks_unhandled", "asks_unhandled_newest", "asks_open"),
    *("asks_open_newest", "asks_attention", "asks_told", "asks_told_newest", "asks_snoozed", "attention_count"),
)


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_asked_long_ago_is_not_read_to_find_what_is_unfinished(
    board_url: str, engine: str, counted: bool
) -> None:
    run(as_owner(board_url), *(statement.format(**TIMES[engine]) for statement in CLOSED[: None if counted else -1]))
    given: dict[str, Any] = {"after": 0, "before": 9_999, "limit": 20, "asked_by": "alice"}
    everything = r"Seq Scan on (asks(?! newer)|annotations)|autoindex_(asks|annotations)_2|_number\b"
    for name in UNFINISHED:
        text = "\n".join(plan_of(board_url, name, **given))
        assert re.search(r"\bidx_(asks_(live|answered|expiry|place)|annotations_live)\b", text), (name, text)
        assert not re.search(everything, text), (name, text)


def test_which_projects_are_closed_is_not_asked_of_each_ask_anew(board_url: str) -> None:
    text = "\n".join(plan_of(board_url, "attention_count"))
    assert re.search(r"LIST SUBQUERY|hashed SubPlan", text), text


@pytest.mark.parametrize(
    "name", ["leases_live", "leases_of_worktree", "lock_lost", "session_losses_leases", "session_due"]
)
def test_what_ended_long_ago_is_not_read_again(board_url: str, engine: str, name: str) -> None:
    run(as_owner(board_url), *(statement.format(**TIMES[engine]) for statement in ENDED))
    text = "\n".join(plan_of(board_url, name, id="s1", session="s1"))
    assert re.search(r"\bidx_leases_", text), text
    assert not re.search(r"Seq Scan on leases|SCAN leases(?! USING INDEX idx_)|Backward using pk_leases", text), text
    assert ("idx_leases_ended" in text) == (name in ("lock_lost", "session_losses_leases")), text


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_no_operation_waits_for_the_server_more_often_than_it_must(
    board: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told, or read for the answer, goes along with what is waited for anyway."""
    engine = board.database.engine
    names = {engine.binder(engine.library[name])[0]: name for name in engine.library.names()}
    sent: list[str] = []
    execute, answered, commit = Postgres.execute, Postgres.answered, Postgres.commit

    def executing(self: Postgres, connection: Any, sql: str, params: Any) -> Any:
        sent.append(names[sql])
        return execute(self, connection, sql, params)

    def waiting(self: Postgres, connection: Any, executed: Any) -> Any:
        if executed.pgresult is None:
            sent.append("|")
        return answered(self, connection, executed)

    def committing(self: Postgres, connection: Any) -> None:
        sent.append("|")
        commit(self, connection)

    monkeypatch.setattr(Postgres, "schema_stamp", lambda self, connection: "looked at")  # else every few seconds
    session = board.register(name="alice").id
    board.heartbeat(session=session)
    board.next_events(consumer="reader")
    said = {}
    for verb, (_, call) in SENT.items():
        board.dispatch(title="T", role="worker")
        board.dispatch(title="T", role="worker")
        claim = board.claim_next(role="worker")
        assert claim is not None
        with monkeypatch.context() as watched:
            watched.setattr(Postgres, "execute", executing)
            watched.setattr(Postgres, "answered", waiting)
            watched.setattr(Postgres, "commit", committing)
            sent.clear()
            call(board, claim.handle, session)
        said[verb] = " ".join(sent)
    assert said == {verb: expected for verb, (expected, _) in SENT.items()}


def test_sessions_that_are_over_are_not_read_to_find_those_that_go_on(
    board: Coordinator, board_url: str, engine: str
) -> None:
    session = board.register(name="alice")
    run(
        as_owner(board_url),
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO sessions"
        " (id, agent, ttl_seconds, started_at, heartbeat_at, last_call_at, ended_at) SELECT 's-' || i, agent,"
        f" ttl_seconds, started_at, heartbeat_at, last_call_at, started_at FROM n, sessions WHERE id = '{session.id}'",
        "ANALYZE",
    )
    text = "\n".join(plan_of(board_url, "sessions_open"))
    assert "idx_sessions_stale" in text, text
    text = "\n".join(plan_of(board_url, "agents_list", limit=100))
    assert len(re.findall(r"idx_sessions_(?:seen|stale)", text)) in (2, 4), text  # of two plans on Postgres
    assert not re.search(r"Seq Scan on sessions|SCAN sessions", text), text
    assert [(each.live_sessions, each.last_seen) for each in board.list_agents()] == [(1, session.heartbeat_at)]
    assert [each.id for each in board.list_sessions(of_agent="alice")] == [session.id]
    assert len(board.list_sessions(ended=True, limit=1000)) == 1000


def test_a_waiting_look_walks_the_index_too(crowd: str, engine: str) -> None:
    """The last looks of a claim: on Postgres it asks for rows that others have locked, and waits for them."""
    if engine == "postgresql":
        for name in ("claim_next_wait", "claim_next_seen"):
            text = "\n".join(plan_of(crowd, name))
            assert "idx_tasks_claim" in text
            assert "Sort" not in text
    else:
        assert "claim_next_wait" not in Library(engine)


def test_a_long_chain_is_followed_by_its_index_though_nobody_counted_the_rows(board_url: str, engine: str) -> None:
    """A board that grew faster than it was analyzed: reading all edges for each step took 18 s for 10,000 steps."""
    run(
        as_owner(board_url),
        *(["ALTER TABLE task_dependencies SET (autovacuum_enabled = off)"] if engine == "postgresql" else []),
        *(statement.format(**TIMES[engine]) for statement in FILL[:1]),
        "INSERT INTO task_dependencies (task_id, depends_on_task_id, met)"
        " SELECT id, 'TASK-' || (number + 1), (1 = 0) FROM tasks WHERE number < 10000",
    )
    text = "\n".join(plan_of(board_url, "edge_reaches"))
    assert not re.search(r"Seq Scan on task_dependencies|Hash|Merge|SCAN (e|task_dependencies)\b", text), text


def test_the_files_ship_beside_the_code() -> None:
    assert {path.name for path in Path(FOLDER).glob("*.sql")} == {"sqlite.sql", "postgresql.sql"}


def test_a_board_runs_on_these_files_alone(board: Coordinator) -> None:
    """Every statement that the program asks for by name is there: the sources are read for such names."""
    package = Path(coordinate.__file__).parent
    verbs = "one|all|run|run_many|ran|send|ask|at_end|where_needed"
    asked = set()
    for source in package.rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        asked |= set(re.findall(rf"\b(?:tx|self)\.(?:{verbs})\(\s*\"([a-z_]+)\"", text))
    known = set(Library("sqlite").names()) | set(Library("postgresql").names())
    assert asked
    assert asked - known == set()


def test_the_statements_are_read_once_a_process(tmp_path: Path) -> None:
    """Each call in a caller's own transaction has an engine of its own."""
    one, other = (SQLite(str(tmp_path / name)) for name in ("one.db", "other.db"))
    assert one.library is other.library
