-- Every statement on a board's rows that coordinate sends to PostgreSQL while it runs. Beside them:
-- what begins and ends transactions, looks at the catalog, migrates a board, moves it, or examines it.
-- Made by `python -m coordinate.compile_sql` from the statements.py modules; do not edit.

-- ===== shared: the schema's age, counters, events =====

-- name: schema_versions
-- why: Which revision the database stands at: one row; more or none say that something is wrong.
-- takes: nothing
-- gives: version_num text
SELECT coordinate_version.version_num
FROM coordinate_version
ORDER BY coordinate_version.version_num;

-- name: schema_window
-- why: The revision that last set the window, and the oldest schema knowledge that may still write.
-- takes: nothing
-- gives: revision text, oldest_writer integer
SELECT schema_window.revision, schema_window.oldest_writer
FROM schema_window;

-- name: move_state
-- why: Whether this board moves, has moved or came from elsewhere: no row, or one.
-- takes: nothing
-- gives: move text, state text, address text, fenced_at instant, opened_at instant
SELECT board_move.move, board_move.state, board_move.address, board_move.fenced_at, board_move.opened_at
FROM board_move;

-- name: move_begin
-- why: The one row of a move, on either side; whoever writes it holds up all writers meanwhile.
-- takes: move text, state text, address text, fenced_at instant
-- gives: id integer
INSERT INTO board_move (id, move, state, address, fenced_at, opened_at) VALUES (1, :move, :state, :address, :fenced_at,
    NULL) ON CONFLICT (id) DO UPDATE SET move = :move, state = :state, address = :address, fenced_at = :fenced_at,
    opened_at = NULL
RETURNING board_move.id;

-- name: move_pass
-- why: Bring a move to its next state, if it stands where this one thinks it does.
-- takes: state text, opened_at instant, move text, before text
-- gives: nothing
UPDATE board_move SET state=:state, opened_at=:opened_at
WHERE board_move.move = :move AND board_move.state = :before;

-- name: move_forget
-- why: The board stays where it is.
-- takes: move text, before text
-- gives: nothing
DELETE FROM board_move
WHERE board_move.move = :move AND board_move.state = :before;

-- name: clock
-- why: The database's time.
-- takes: nothing
-- gives: now instant
SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now;

-- name: lock_edges
-- why: Edges are added and removed one at a time: counts stay right, and circles of any length are seen.
-- takes: nothing
-- gives: locked boolean
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/edges', 0)) IS NULL AS locked;

-- name: announce
-- why: Wake whoever waits.
-- takes: topic text
-- gives: woken boolean
SELECT pg_notify('coordinate_' || CASE WHEN octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE
    current_schema() END, :topic) IS NULL AS woken;

-- name: counter_take
-- why: Mint `count` numbers of a kind; the answer is the last of them. The row stays locked until the transaction ends.
-- takes: count integer, kind text
-- gives: value integer, now instant
UPDATE counters SET value=(counters.value + :count)
WHERE counters.kind = :kind
RETURNING counters.value, (SELECT date_trunc('milliseconds', clock_timestamp())) AS now;

-- name: counter_raise
-- why: Lift a counter to what was already used; it never falls.
-- takes: least integer, kind text
-- gives: nothing
UPDATE counters SET value=:least
WHERE counters.kind = :kind AND counters.value < :least;

-- name: counters_raise
-- why: Every counter goes on that much higher, or is used up. (Up to where the log was pruned is no number given out.)
-- takes: count integer
-- gives: nothing
UPDATE counters SET value=CASE WHEN (counters.value > 9223372036854775807 - :count) THEN 9223372036854775807 ELSE
    counters.value + :count END
WHERE counters.kind != 'events_pruned';

-- name: probe
-- why: A write that changes nothing: does the board take writes?
-- takes: nothing
-- gives: nothing
UPDATE counters SET value=counters.value
WHERE counters.kind = 'fence';

-- name: counter_value
-- why: The last number minted.
-- takes: kind text
-- gives: value integer
SELECT counters.value
FROM counters
WHERE counters.kind = :kind;

-- name: event_append
-- why: One line of the log. The last statement of its transaction, so that the order of events follows the row locks.
-- takes: event_type text, payload text, ttl_seconds integer, project text, agent text, ref text, message text, folded
--   text
-- gives: nothing
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES ((SELECT
    date_trunc('milliseconds', clock_timestamp())), :event_type, CAST(:payload AS JSON), :ttl_seconds, :project, :agent,
    :ref, :message, :folded);

-- name: events_number
-- why: Give positions to what was committed since the last time. NULL: somebody else is at it, or this is a standby.
-- takes: batch integer
-- gives: position integer
SELECT coordinate_number_events(:batch) AS position;

-- name: events_after
-- why: The numbered events behind a position, in the one order.
-- takes: after integer, project text, not_by text, limit integer
-- gives: position integer, created_at instant, event_type text, payload json, ttl_seconds integer, project text, agent
--   text, ref text, message text
SELECT event_feed.position, events.created_at, events.event_type, events.payload, events.ttl_seconds, events.project,
    events.agent, events.ref, events.message
FROM event_feed JOIN events ON events.id = event_feed.event_id
WHERE event_feed.position > :after AND (CAST(:project AS TEXT) IS NULL OR events.project = :project) AND (CAST(:not_by
    AS TEXT) IS NULL OR events.agent IS NULL OR events.agent != :not_by)
ORDER BY event_feed.position

LIMIT :limit;

-- name: said_after
-- why: What other agents said behind a position: events with a message, in the one order.
-- takes: after integer, not_by text, limit integer
-- gives: position integer, created_at instant, event_type text, payload json, ttl_seconds integer, project text, agent
--   text, ref text, message text
SELECT event_feed.position, events.created_at, events.event_type, events.payload, events.ttl_seconds, events.project,
    events.agent, events.ref, events.message
FROM event_feed JOIN events ON events.id = event_feed.event_id
WHERE event_feed.position > :after AND events.message != '' AND (events.agent IS NULL OR events.agent != :not_by)
ORDER BY event_feed.position

LIMIT :limit;

-- name: said_count
-- why: How much other agents said behind a position.
-- takes: after integer, not_by text
-- gives: count integer
SELECT count(event_feed.position) AS count
FROM event_feed JOIN events ON events.id = event_feed.event_id
WHERE event_feed.position > :after AND events.message != '' AND (events.agent IS NULL OR events.agent != :not_by);

-- name: events_latest
-- why: The newest events, newest first, numbered yet or not; `before` is the position of the first of the page before.
-- takes: event_type text, ref text, project text, agent text, before integer, limit integer
-- gives: position integer, created_at instant, event_type text, payload json, ttl_seconds integer, project text, agent
--   text, ref text, message text
SELECT event_feed.position, events.created_at, events.event_type, events.payload, events.ttl_seconds, events.project,
    events.agent, events.ref, events.message
FROM events LEFT OUTER JOIN event_feed ON events.id = event_feed.event_id
WHERE (CAST(:event_type AS TEXT) IS NULL OR events.event_type = :event_type) AND (CAST(:ref AS TEXT) IS NULL OR
    events.ref = :ref) AND (CAST(:project AS TEXT) IS NULL OR events.project = :project) AND (CAST(:agent AS TEXT) IS
    NULL OR events.agent = :agent) AND events.id < coalesce((SELECT event_feed.event_id
FROM event_feed
WHERE event_feed.position >= :before
ORDER BY event_feed.position

LIMIT 1), 9223372036854775807)
ORDER BY events.id DESC

LIMIT :limit;

-- name: events_search
-- why: Events whose message, reference or payload holds a text, newest first. Literal and case-folded.
-- takes: needle text, project text, any_type text, event_types list, before integer, limit integer
-- gives: position integer, created_at instant, event_type text, payload json, ttl_seconds integer, project text, agent
--   text, ref text, message text
SELECT event_feed.position, events.created_at, events.event_type, events.payload, events.ttl_seconds, events.project,
    events.agent, events.ref, events.message
FROM events LEFT OUTER JOIN event_feed ON events.id = event_feed.event_id
WHERE strpos(events.folded, :needle) > 0 AND (CAST(:project AS TEXT) IS NULL OR events.project = :project) AND
    (CAST(:any_type AS TEXT) IS NOT NULL OR events.event_type = ANY (CAST(:event_types AS TEXT[]))) AND events.id <
    coalesce((SELECT event_feed.event_id
FROM event_feed
WHERE event_feed.position >= :before
ORDER BY event_feed.position

LIMIT 1), 9223372036854775807)
ORDER BY events.id DESC

LIMIT :limit;

-- name: feed_head
-- why: The last position given out, or pruned; and up to where the log was pruned.
-- takes: nothing
-- gives: position integer, pruned integer
SELECT greatest(coalesce((SELECT max(event_feed.position) AS max_1
FROM event_feed), 0), coalesce((SELECT counters.value
FROM counters
WHERE counters.kind = 'events_pruned'), 0)) AS position, coalesce((SELECT counters.value
FROM counters
WHERE counters.kind = 'events_pruned'), 0) AS pruned;

-- name: feed_count
-- why: How many events stand between two positions; what is missing there was pruned.
-- takes: after integer, through integer
-- gives: count integer
SELECT count(event_feed.position) AS count
FROM event_feed
WHERE event_feed.position > :after AND event_feed.position <= :through;

-- name: events_expired
-- why: A batch of numbered events whose time is over, oldest first.
-- takes: after integer, limit integer
-- gives: position integer, id integer
SELECT event_feed.position, events.id
FROM event_feed JOIN events ON events.id = event_feed.event_id
WHERE event_feed.position > :after AND events.ttl_seconds IS NOT NULL AND (events.created_at + make_interval(secs =>
    CAST(events.ttl_seconds AS DOUBLE PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp()))
ORDER BY event_feed.position

LIMIT :limit;

-- name: events_delete
-- why: Remove a run of expired events; their place in the feed goes with them.
-- takes: after integer, through integer
-- gives: nothing
DELETE FROM events
WHERE events.ttl_seconds IS NOT NULL AND (events.created_at + make_interval(secs => CAST(events.ttl_seconds AS DOUBLE
    PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp())) AND events.id IN (SELECT event_feed.event_id
FROM event_feed
WHERE event_feed.position > :after AND event_feed.position <= :through);

-- name: cursor_start
-- why: A newcomer starts where it is told; one who comes back keeps its place.
-- takes: consumer text, position integer
-- gives: consumer text
INSERT INTO event_cursors (consumer, delivered, acknowledged, updated_at) VALUES (:consumer, :position, :position,
    (SELECT date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT (consumer) DO NOTHING
RETURNING event_cursors.consumer;

-- name: cursor
-- why: How far a consumer was handed events, and how far it has finished with them.
-- takes: consumer text
-- gives: consumer text, delivered integer, acknowledged integer, rested boolean
SELECT event_cursors.consumer, event_cursors.delivered, event_cursors.acknowledged, (event_cursors.updated_at +
    make_interval(secs => CAST(86400 AS DOUBLE PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp())) AS
    rested
FROM event_cursors
WHERE event_cursors.consumer = :consumer;

-- name: cursor_lock
-- why: The same, locked for who hands events out once.
-- takes: consumer text
-- gives: consumer text, delivered integer, acknowledged integer, rested boolean
SELECT event_cursors.consumer, event_cursors.delivered, event_cursors.acknowledged, (event_cursors.updated_at +
    make_interval(secs => CAST(86400 AS DOUBLE PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp())) AS
    rested
FROM event_cursors
WHERE event_cursors.consumer = :consumer FOR UPDATE;

-- name: cursor_deliver
-- why: Handed out up to here; never back.
-- takes: position integer, consumer text
-- gives: nothing
UPDATE event_cursors SET delivered=:position, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE event_cursors.consumer = :consumer AND event_cursors.delivered < :position;

-- name: cursor_rewind
-- why: Back to a position, asked for by name.
-- takes: position integer, consumer text
-- gives: nothing
UPDATE event_cursors SET delivered=:position, acknowledged=:position, updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE event_cursors.consumer = :consumer;

-- name: cursor_acknowledge
-- why: Finished up to here; never back, never beyond what was handed out.
-- takes: position integer, consumer text
-- gives: delivered integer, acknowledged integer
UPDATE event_cursors SET acknowledged=:position, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE event_cursors.consumer = :consumer AND event_cursors.acknowledged < :position AND event_cursors.delivered >=
    :position
RETURNING event_cursors.delivered, event_cursors.acknowledged;

-- name: cursor_forget
-- why: Nobody reads on from here.
-- takes: consumer text
-- gives: nothing
DELETE FROM event_cursors
WHERE event_cursors.consumer = :consumer;

-- name: cursors_forget
-- why: Cursors of sessions that are long over: one that was swept may come back, and reads on until then.
-- takes: limit integer
-- gives: nothing
DELETE FROM event_cursors
WHERE event_cursors.consumer IN (SELECT event_cursors.consumer
FROM event_cursors JOIN sessions ON event_cursors.consumer = ('learnings:' || sessions.id)
WHERE (sessions.ended_at + make_interval(secs => CAST(2592000 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))
ORDER BY event_cursors.consumer

LIMIT :limit);

-- name: scopes_lock
-- why: One grant of scopes at a time in a project: the look and the write that follow see every other grant.
-- takes: project text
-- gives: locked boolean
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/scopes' || '/' || CAST(:project AS TEXT), 0)) IS
    NULL AS locked;

-- name: scopes_try
-- why: The same, unless somebody has the lock: the answer says whether it was to be had.
-- takes: project text
-- gives: locked boolean
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/scopes' || '/' || CAST(:project AS TEXT), 0)) AS
    locked;

-- name: scopes_near
-- why: Unreleased scope leases whose leading path lies above or below one: the only ones that can overlap it.
-- takes: project text, above list, below text, beyond text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant, live boolean, keeper text
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason,
    leases.told_at, leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live, (SELECT worktrees.agent
FROM worktrees
WHERE worktrees.id = leases.worktree_id) AS keeper
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.project = :project AND leases.prefix = ANY
    (CAST(:above AS TEXT[])) UNION SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix,
    leases.mode, leases.agent, leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence,
    leases.depth, leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason,
    leases.told_at, leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live, (SELECT worktrees.agent
FROM worktrees
WHERE worktrees.id = leases.worktree_id) AS keeper
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.project = :project AND leases.prefix >= :below AND
    leases.prefix < :beyond
ORDER BY id;

-- name: scopes_all
-- why: All unreleased scope leases of a project: what could overlap its root.
-- takes: project text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant, live boolean, keeper text
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason,
    leases.told_at, leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live, (SELECT worktrees.agent
FROM worktrees
WHERE worktrees.id = leases.worktree_id) AS keeper
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.project = :project
ORDER BY leases.id;

-- name: lease_insert
-- why: A scope lease; without an end when it is bound to an open worktree.
-- takes: kind text, project text, resource text, prefix text, mode text, agent text, session text, task_id text,
--   attempt integer, worktree_id integer, fence integer, ttl_seconds integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
INSERT INTO leases (kind, project, resource, prefix, mode, agent, session_id, task_id, attempt, worktree_id, fence,
    ttl_seconds, acquired_at, expires_at) VALUES (:kind, :project, :resource, :prefix, :mode, :agent, :session,
    :task_id, :attempt, :worktree_id, :fence, CAST(:ttl_seconds AS BIGINT), (SELECT date_trunc('milliseconds',
    clock_timestamp())), CASE WHEN (CAST(:worktree_id AS BIGINT) IS NOT NULL) THEN NULL ELSE (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(CAST(:ttl_seconds AS BIGINT) AS DOUBLE
    PRECISION))) END)
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lock_insert
-- why: A lock, unless somebody holds it: the unique index decides.
-- takes: kind text, project text, resource text, prefix text, mode text, agent text, session text, task_id text,
--   attempt integer, worktree_id integer, fence integer, ttl_seconds integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
INSERT INTO leases (kind, project, resource, prefix, mode, agent, session_id, task_id, attempt, worktree_id, fence,
    ttl_seconds, acquired_at, expires_at) VALUES (:kind, :project, :resource, :prefix, :mode, :agent, :session,
    :task_id, :attempt, :worktree_id, :fence, CAST(:ttl_seconds AS BIGINT), (SELECT date_trunc('milliseconds',
    clock_timestamp())), CASE WHEN (CAST(:worktree_id AS BIGINT) IS NOT NULL) THEN NULL ELSE (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(CAST(:ttl_seconds AS BIGINT) AS DOUBLE
    PRECISION))) END) ON CONFLICT DO NOTHING
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lock_held
-- why: Who holds a lock (perhaps beyond its time).
-- takes: project text, resource text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant, live boolean
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason,
    leases.told_at, leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live
FROM leases
WHERE leases.kind = 'lock' AND leases.released_at IS NULL AND leases.project = :project AND leases.resource = :resource;

-- name: lock_expire
-- why: End a lock whose time is over, before somebody else takes it.
-- takes: project text, resource text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET released_at=(SELECT date_trunc('milliseconds', clock_timestamp())), release_reason='expired'
WHERE leases.kind = 'lock' AND leases.released_at IS NULL AND leases.expires_at <= (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND leases.project = :project AND leases.resource = :resource
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lock_nest
-- why: The same session takes the lock once more.
-- takes: ttl_seconds integer, project text, resource text, session text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET depth=(leases.depth + 1), expires_at=greatest(leases.expires_at, (SELECT date_trunc('milliseconds',
    clock_timestamp()) + make_interval(secs => CAST(:ttl_seconds AS DOUBLE PRECISION))))
WHERE leases.kind = 'lock' AND leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AND leases.project = :project AND leases.resource = :resource AND
    leases.session_id = :session
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lock_release
-- why: One level of an own lock less, shown by its fence or else by the session; the last level ends it.
-- takes: project text, resource text, agent text, fence integer, session text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET depth=CASE WHEN (leases.depth = 1) THEN leases.depth ELSE leases.depth - 1 END, released_at=CASE WHEN
    (leases.depth = 1) THEN (SELECT date_trunc('milliseconds', clock_timestamp())) ELSE NULL END, release_reason=CASE
    WHEN (leases.depth = 1) THEN 'released' ELSE NULL END
WHERE leases.kind = 'lock' AND leases.released_at IS NULL AND leases.project = :project AND leases.resource = :resource
    AND leases.agent = :agent AND CASE WHEN (CAST(:fence AS BIGINT) IS NOT NULL) THEN leases.fence = :fence ELSE
    leases.session_id = :session END
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lock_renew
-- why: Renew an own lock that lives to its full length from now; never to less.
-- takes: ttl_seconds integer, project text, resource text, agent text, fence integer, session text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET expires_at=greatest(leases.expires_at, (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(coalesce(CAST(:ttl_seconds AS BIGINT), leases.ttl_seconds) AS DOUBLE PRECISION))))
WHERE leases.kind = 'lock' AND leases.released_at IS NULL AND leases.project = :project AND leases.resource = :resource
    AND leases.agent = :agent AND CASE WHEN (CAST(:fence AS BIGINT) IS NOT NULL) THEN leases.fence = :fence ELSE
    leases.session_id = :session END AND leases.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lease_renew
-- why: Renew a live lease to its full length from now; never to less, never one that is past, released or a task's.
-- takes: ttl_seconds integer, fence integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET expires_at=greatest(leases.expires_at, (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(coalesce(CAST(:ttl_seconds AS BIGINT), leases.ttl_seconds) AS DOUBLE PRECISION))))
WHERE leases.fence = :fence AND leases.released_at IS NULL AND leases.task_id IS NULL AND leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lease_end
-- why: End a lease that nobody ended before.
-- takes: reason text, id integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET released_at=(SELECT date_trunc('milliseconds', clock_timestamp())), release_reason=:reason
WHERE leases.id = :id AND leases.released_at IS NULL
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: lease_by_fence
-- why: The lease of a fence, locked.
-- takes: fence integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant, live boolean
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason,
    leases.told_at, leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live
FROM leases
WHERE leases.fence = :fence FOR UPDATE;

-- name: lease_share
-- why: Hold a lease's row still while a task is set aside on it: its end waits, or was before.
-- takes: id integer
-- gives: id integer
SELECT leases.id
FROM leases
WHERE leases.id = :id FOR SHARE;

-- name: lease_share_free
-- why: The same of one that nobody else has locked; no row where somebody has.
-- takes: id integer
-- gives: id integer
SELECT leases.id
FROM leases
WHERE leases.id = :id FOR SHARE SKIP LOCKED;

-- name: lease_lives
-- why: Whether it still lives, in a statement after the lock.
-- takes: id integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.id = :id AND leases.released_at IS NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp())));

-- name: leases_of_task
-- why: Unreleased scope leases bound to a task, but to no worktree: they end with the hold.
-- takes: task_id text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.task_id = :task_id AND leases.worktree_id IS NULL
ORDER BY leases.id;

-- name: leases_of_worktree
-- why: Unreleased leases of a worktree.
-- takes: worktree_id integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.worktree_id = :worktree_id
ORDER BY leases.id + 0;

-- name: leases_of_sessions
-- why: Unreleased leases of sessions, locked; what a held task or an open worktree keeps ends with that.
-- takes: sessions list, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.session_id = ANY (CAST(:sessions AS TEXT[])) AND leases.task_id IS NULL
ORDER BY leases.id

LIMIT :limit FOR UPDATE;

-- name: leases_free_of_sessions
-- why: The same of those that nobody else has locked: whoever sweeps waits for no other.
-- takes: sessions list, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.session_id = ANY (CAST(:sessions AS TEXT[])) AND leases.task_id IS NULL
ORDER BY leases.id

LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: sessions_holding
-- why: Which of these sessions hold one still.
-- takes: sessions list
-- gives: session_id text
SELECT DISTINCT leases.session_id
FROM leases
WHERE leases.released_at IS NULL AND leases.session_id = ANY (CAST(:sessions AS TEXT[])) AND leases.task_id IS NULL;

-- name: leases_of_tasks
-- why: Unreleased leases bound to tasks, by their hold or by an open worktree.
-- takes: ids list, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.task_id = ANY (CAST(:ids AS TEXT[]))
ORDER BY leases.id

LIMIT :limit;

-- name: leases_elsewhere
-- why: The first that is bound to one of these tasks in another project than this.
-- takes: ids list, project text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.task_id = ANY (CAST(:ids AS TEXT[])) AND leases.project != :project
ORDER BY leases.id

LIMIT 1;

-- name: scopes_free
-- why: Scopes of a session that neither a held task nor an open worktree keeps, locked: none is bound meanwhile.
-- takes: session text, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :session AND leases.task_id IS NULL
ORDER BY leases.id

LIMIT :limit FOR UPDATE;

-- name: scopes_of_session
-- why: What a session holds of some patterns, also what a held task or an open worktree keeps.
-- takes: session text, project text, resources list, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :session AND leases.project =
    :project AND leases.resource = ANY (CAST(:resources AS TEXT[]))
ORDER BY leases.id

LIMIT :limit;

-- name: leases_give
-- why: What is bound to a task goes to its new holder, also what its open worktree keeps.
-- takes: agent text, session text, attempt integer, task_id text
-- gives: nothing
UPDATE leases SET agent=:agent, session_id=:session, attempt=:attempt
WHERE leases.released_at IS NULL AND leases.task_id = :task_id;

-- name: leases_keep
-- why: The scopes of a task last as long as its hold, like which they may be renewed until somebody has ended them.
-- takes: until instant, task_id text
-- gives: nothing
UPDATE leases SET expires_at=:until
WHERE leases.released_at IS NULL AND leases.task_id = :task_id AND leases.worktree_id IS NULL;

-- name: lease_bind
-- why: An own lease becomes one of a held task.
-- takes: task_id text, attempt integer, id integer
-- gives: nothing
UPDATE leases SET task_id=:task_id, attempt=:attempt
WHERE leases.id = :id AND leases.released_at IS NULL AND leases.task_id IS NULL;

-- name: leases_take_over
-- why: An adopted worktree's leases are the adopter's.
-- takes: agent text, session text, worktree_id integer
-- gives: id integer
UPDATE leases SET agent=:agent, session_id=:session
WHERE leases.released_at IS NULL AND leases.worktree_id = :worktree_id
RETURNING leases.id;

-- name: leases_bind
-- why: What is bound to a task belongs to its open worktree from now on, shared with nobody, and has no end.
-- takes: worktree_id integer, task_id text
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET mode='exclusive', worktree_id=:worktree_id, expires_at=NULL
WHERE leases.released_at IS NULL AND leases.task_id = :task_id AND leases.worktree_id IS NULL AND leases.kind = 'scope'
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: leases_return
-- why: A worktree is over, the hold on its task is not: what the task declares, or had before, lasts as long as that.
-- takes: agent text, session text, attempt integer, until instant, worktree_id integer, opened_at instant
-- gives: nothing
UPDATE leases SET agent=:agent, session_id=:session, attempt=:attempt, worktree_id=NULL, expires_at=:until
WHERE leases.released_at IS NULL AND leases.worktree_id = :worktree_id AND (leases.acquired_at < :opened_at OR
    leases.resource IN (SELECT task_scopes.pattern
FROM task_scopes
WHERE task_scopes.task_id = leases.task_id));

-- name: leases_past
-- why: A batch of leases whose time is over, locked; the longest past first. What a task keeps ends with its hold.
-- takes: limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.expires_at <= (SELECT date_trunc('milliseconds', clock_timestamp())) AND
    leases.task_id IS NULL
ORDER BY leases.expires_at, leases.id

LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: leases_held
-- why: A page of leases that nobody ended, live or past, newest first; without what an open worktree keeps.
-- takes: before integer, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.released_at IS NULL AND leases.worktree_id IS NULL AND (CAST(:before AS BIGINT) IS NULL OR leases.id <
    :before)
ORDER BY leases.id DESC

LIMIT :limit;

-- name: leases_list
-- why: Leases by kind, holder or project, live or over; `before` (an id) pages back.
-- takes: kind text, project text, agent text, task_id text, before integer, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE (CAST(:kind AS TEXT) IS NULL OR leases.kind = :kind) AND (CAST(:project AS TEXT) IS NULL OR leases.project =
    :project) AND (CAST(:agent AS TEXT) IS NULL OR leases.agent = :agent) AND (CAST(:task_id AS TEXT) IS NULL OR
    leases.task_id = :task_id) AND (CAST(:before AS BIGINT) IS NULL OR leases.id < :before)
ORDER BY leases.id DESC

LIMIT :limit;

-- name: leases_live
-- why: The live ones of these.
-- takes: kind text, project text, agent text, task_id text, before integer, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE (CAST(:kind AS TEXT) IS NULL OR leases.kind = :kind) AND (CAST(:project AS TEXT) IS NULL OR leases.project =
    :project) AND (CAST(:agent AS TEXT) IS NULL OR leases.agent = :agent) AND (CAST(:task_id AS TEXT) IS NULL OR
    leases.task_id = :task_id) AND (CAST(:before AS BIGINT) IS NULL OR leases.id < :before) AND leases.released_at IS
    NULL AND (leases.expires_at IS NULL OR leases.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp())))
ORDER BY leases.id + 0 DESC

LIMIT :limit;

-- name: tasks_unpark_from
-- why: Put a batch of tasks that were set aside on a lease back into the queue, in their old places.
-- takes: lease_id integer, limit integer
-- gives: id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now),
set_aside AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.parked = 'scope' AND tasks.parked_on = :lease_id
ORDER BY tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, parked_on=NULL
WHERE tasks.id = ANY (ARRAY(SELECT set_aside.id
FROM set_aside))
RETURNING tasks.id;

-- name: counter_next
-- why: Mint `count` numbers above a floor and above every number minted before; the answer is the last of them.
-- takes: kind text, floor integer, count integer
-- gives: value integer
INSERT INTO counters (kind, value) VALUES (:kind, (CAST(:floor AS BIGINT) + :count)) ON CONFLICT (kind) DO UPDATE SET
    value = (greatest(counters.value, :floor) + :count)
WHERE greatest(counters.value, :floor) <= 9223372036854775807 - :count
RETURNING counters.value;

-- ===== work: tasks, claims, dependencies, review, notes, history =====

-- name: queue_due
-- why: Whether a lease is past, something set aside is due, or something is reserved for the caller; mostly none is.
-- takes: agent text
-- gives: expired boolean, parked boolean, reserved boolean
SELECT (SELECT tasks.lease_until
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until IS NOT NULL
ORDER BY tasks.lease_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) AS expired, (SELECT tasks.parked_until
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until IS NOT NULL
ORDER BY tasks.parked_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) AS parked, EXISTS (SELECT tasks.number
FROM tasks
WHERE tasks.parked = 'reserved' AND tasks.reserved_for = :agent) AS reserved;

-- name: queue_take_back
-- why: Take back a batch of tasks whose lease is past, the longest past first; spent ones become BLOCKED.
-- takes: limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now),
expired AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))
ORDER BY tasks.lease_until, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status=CASE WHEN (tasks.expiries + 1 >= tasks.max_attempts) THEN 'BLOCKED' ELSE 'TODO' END,
    assigned_agent=NULL, session_id=NULL, lease_until=NULL, expiries=(tasks.expiries + 1), parked=CASE WHEN
    (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = ANY (ARRAY(SELECT expired.id
FROM expired)) AND tasks.status || '' = 'IN_PROGRESS' AND tasks.lease_until <= (SELECT date_trunc('milliseconds',
    clock_timestamp()))
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: holds_end
-- why: Take a batch of held tasks back, whatever is left of their leases: the board was put back to an earlier day.
-- takes: limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now),
held AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.status = 'IN_PROGRESS'
ORDER BY tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET status='TODO', assigned_agent=NULL, session_id=NULL, lease_until=NULL, parked=CASE WHEN
    (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = ANY (ARRAY(SELECT held.id
FROM held)) AND tasks.status || '' = 'IN_PROGRESS'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: reviews_end
-- why: Nobody has reserved a review any more.
-- takes: nothing
-- gives: nothing
UPDATE tasks SET reviewer=NULL, review_until=NULL
WHERE tasks.status = 'IN_REVIEW' AND tasks.reviewer IS NOT NULL;

-- name: tasks_raise
-- why: Every attempt and revision goes on that much higher.
-- takes: attempts integer, revisions integer
-- gives: nothing
UPDATE tasks SET attempt=(tasks.attempt + :attempts), revision=(tasks.revision + :revisions);

-- name: task_take_back
-- why: The same for one task, before it is claimed by name.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status=CASE WHEN (tasks.expiries + 1 >= tasks.max_attempts) THEN 'BLOCKED' ELSE 'TODO' END,
    assigned_agent=NULL, session_id=NULL, lease_until=NULL, expiries=(tasks.expiries + 1), parked=CASE WHEN
    (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.lease_until <= (SELECT
    date_trunc('milliseconds', clock_timestamp()))
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: queue_unpark
-- why: Put a batch of what is due back into the queue, in its old place. Not a change: no revision, no event.
-- takes: limit integer
-- gives: id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now),
due AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))
ORDER BY tasks.parked_until, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, reserved_for=NULL, parked_on=NULL
WHERE tasks.id = ANY (ARRAY(SELECT due.id
FROM due)) AND tasks.parked || '' != '' AND tasks.parked_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))
RETURNING tasks.id;

-- name: task_unpark
-- why: The same for one task before it is claimed by name; what is in the way of its scopes is looked at anew.
-- takes: task_id text
-- gives: id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, reserved_for=NULL, parked_on=NULL
WHERE tasks.id = :task_id AND (tasks.parked || '' = 'scope' OR tasks.parked || '' != '' AND tasks.parked_until <=
    (SELECT date_trunc('milliseconds', clock_timestamp())))
RETURNING tasks.id;

-- name: claim_at_once
-- why: Take the first ready task of a role, unless something is due, reserved, or set aside on what the caller holds.
-- takes: agent text, session text, lease_seconds integer, role text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = CASE WHEN ((SELECT tasks.lease_until
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until IS NOT NULL
ORDER BY tasks.lease_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR (SELECT tasks.parked_until
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until IS NOT NULL
ORDER BY tasks.parked_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR (EXISTS (SELECT tasks.number
FROM tasks
WHERE tasks.parked = 'reserved' AND tasks.reserved_for = :agent)) OR (EXISTS (SELECT leases.id
FROM leases JOIN tasks ON tasks.parked_on = leases.id AND tasks.parked = 'scope'
WHERE leases.session_id = :session AND leases.released_at IS NULL))) THEN NULL ELSE :role END AND tasks.status = 'TODO'
    AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_at_once_project
-- why: The same in one project.
-- takes: agent text, session text, lease_seconds integer, role text, project text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = CASE WHEN ((SELECT tasks.lease_until
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until IS NOT NULL
ORDER BY tasks.lease_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR (SELECT tasks.parked_until
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until IS NOT NULL
ORDER BY tasks.parked_until

LIMIT 1) <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR (EXISTS (SELECT tasks.number
FROM tasks
WHERE tasks.parked = 'reserved' AND tasks.reserved_for = :agent)) OR (EXISTS (SELECT leases.id
FROM leases JOIN tasks ON tasks.parked_on = leases.id AND tasks.parked = 'scope'
WHERE leases.session_id = :session AND leases.released_at IS NULL))) THEN NULL ELSE :role END AND tasks.project =
    :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND NOT (tasks.ask_id IS
    NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next
-- why: Take the first ready task of a role.
-- takes: agent text, session text, lease_seconds integer, role text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND
    NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_project
-- why: Take the first ready task of a role in one project.
-- takes: agent text, session text, lease_seconds integer, role text, project text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_many
-- why: Take the first ready tasks of a role.
-- takes: agent text, session text, lease_seconds integer, role text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND
    NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_project_many
-- why: Take the first ready tasks of a role in one project.
-- takes: agent text, session text, lease_seconds integer, role text, project text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_wait
-- why: One more look that waits for rows others have locked: they may let go of them.
-- takes: agent text, session text, lease_seconds integer, role text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND
    NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_seen
-- why: Whether such a task is there although none was to be had: somebody has it locked.
-- takes: role text, session text, agent text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND
    NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1;

-- name: claim_next_project_wait
-- why: One more look that waits for rows others have locked: they may let go of them.
-- takes: agent text, session text, lease_seconds integer, role text, project text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_project_seen
-- why: Whether such a task is there although none was to be had: somebody has it locked.
-- takes: role text, project text, session text, agent text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1;

-- name: claim_next_any_wait
-- why: One more look that waits for rows others have locked: they may let go of them.
-- takes: agent text, session text, lease_seconds integer, role text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND
    (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_any_seen
-- why: Whether such a task is there although none was to be had: somebody has it locked.
-- takes: role text, session text, agent text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND
    (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1;

-- name: claim_next_any_project_wait
-- why: One more look that waits for rows others have locked: they may let go of them.
-- takes: agent text, session text, lease_seconds integer, role text, project text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT
    (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_any_project_seen
-- why: Whether such a task is there although none was to be had: somebody has it locked.
-- takes: role text, project text, session text, agent text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT
    (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1;

-- name: lock_patience
-- why: Wait no longer than this for a row, in this transaction.
-- takes: patience text
-- gives: patience text
SELECT set_config('lock_timeout', :patience, true) AS patience;

-- name: claim_next_any
-- why: Take the first tasks of a role although they wait for others (`--respect-deps=false`); no index walk.
-- takes: agent text, session text, lease_seconds integer, role text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND
    (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_any_project
-- why: The same in one project.
-- takes: agent text, session text, lease_seconds integer, role text, project text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH picked AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.parked = '' AND NOT
    (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT picked.id
FROM picked)) AND tasks.status || '' = 'TODO' AND tasks.parked || '' = ''
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: reserved
-- why: The first tasks of a role that are reserved for the caller, since a human answered what it asked.
-- takes: role text, agent text, session text, limit integer
-- gives: id text, project text, scoped boolean
SELECT tasks.id, tasks.project, tasks.scoped
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked =
    'reserved' AND tasks.reserved_for = :agent AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: reserved_project
-- why: The first tasks of a role that are reserved for the caller, since a human answered what it asked.
-- takes: role text, project text, agent text, session text, limit integer
-- gives: id text, project text, scoped boolean
SELECT tasks.id, tasks.project, tasks.scoped
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = 'reserved' AND tasks.reserved_for = :agent AND NOT (tasks.ask_id IS NOT NULL AND (SELECT
    asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: claim_reserved
-- why: Take some of them.
-- takes: agent text, session text, lease_seconds integer, ids list
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH wanted AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[])) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND
    tasks.parked || '' = 'reserved' AND tasks.reserved_for = :agent AND NOT (tasks.ask_id IS NOT NULL AND (SELECT
    asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.number FOR UPDATE SKIP LOCKED)
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END, parked='',
    parked_until=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.parked_until ELSE NULL END,
    reserved_for=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.reserved_for ELSE NULL END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = ANY (ARRAY(SELECT wanted.id
FROM wanted)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = 'reserved' AND
    tasks.reserved_for = :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_task
-- why: Take one task by name, if it is ready, or reserved for the caller.
-- takes: agent text, session text, lease_seconds integer, task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET status='IN_PROGRESS', assigned_agent=:agent, session_id=:session, lease_until=(SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT),
    (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) AS DOUBLE PRECISION))), lease_seconds=CASE WHEN (tasks.scoped OR tasks.ask_id
    IS NOT NULL) THEN tasks.lease_seconds ELSE coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900) END, attempt=(tasks.attempt + 1), claimed_by=CASE WHEN (tasks.scoped OR
    tasks.ask_id IS NOT NULL) THEN tasks.claimed_by ELSE coalesce(tasks.claimed_by, :agent) END, parked='',
    parked_until=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.parked_until ELSE NULL END,
    reserved_for=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.reserved_for ELSE NULL END,
    revision=(tasks.revision + 1), updated_at=CASE WHEN (tasks.scoped OR tasks.ask_id IS NOT NULL) THEN tasks.updated_at
    ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END
WHERE tasks.id = :task_id AND (tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
    OR tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = 'reserved' AND
    tasks.reserved_for = :agent)
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_whole
-- why: The rest of a claim, once nobody is in its way: a task that is put back instead was never touched.
-- takes: lease_seconds integer, task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET lease_seconds=coalesce(CAST(:lease_seconds AS BIGINT), (SELECT projects.lease_seconds
FROM projects
WHERE projects.name = tasks.project), 900), claimed_by=coalesce(tasks.claimed_by, tasks.assigned_agent),
    parked_until=NULL, reserved_for=NULL, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_next_ahead
-- why: The first ready tasks of a role, only looked at: those whose scopes others hold are set aside at once.
-- takes: role text, session text, agent text, limit integer
-- gives: id text, project text, scoped boolean, revision integer
SELECT tasks.id, tasks.project, tasks.scoped, tasks.revision
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND
    NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: claim_next_own
-- why: The first tasks of a role that were set aside on what this session itself holds.
-- takes: role text, session text, limit integer
-- gives: id text, project text
SELECT tasks.id, tasks.project
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.parked = 'scope' AND tasks.unmet_dependencies = 0 AND tasks.parked_on IN
    (SELECT leases.id
FROM leases
WHERE leases.session_id = :session AND leases.released_at IS NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: claim_next_project_ahead
-- why: The first ready tasks of a role, only looked at: those whose scopes others hold are set aside at once.
-- takes: role text, project text, session text, agent text, limit integer
-- gives: id text, project text, scoped boolean, revision integer
SELECT tasks.id, tasks.project, tasks.scoped, tasks.revision
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.status = 'TODO' AND tasks.unmet_dependencies =
    0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND coalesce(asks.taken_session_id, asks.taken_by) != coalesce(:session, :agent)) IS NOT NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: claim_next_project_own
-- why: The first tasks of a role that were set aside on what this session itself holds.
-- takes: role text, project text, session text, limit integer
-- gives: id text, project text
SELECT tasks.id, tasks.project
FROM tasks
WHERE tasks.role_boundary = :role AND tasks.project = :project AND tasks.parked = 'scope' AND tasks.unmet_dependencies =
    0 AND tasks.parked_on IN (SELECT leases.id
FROM leases
WHERE leases.session_id = :session AND leases.released_at IS NULL)
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: tasks_unpark
-- why: Back into the queue, since to this claimer the scopes are free.
-- takes: ids list
-- gives: nothing
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now),
own AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[])) AND tasks.parked || '' = 'scope'
ORDER BY tasks.number FOR UPDATE SKIP LOCKED)
UPDATE tasks SET parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, reserved_for=NULL, parked_on=NULL
WHERE tasks.id = ANY (ARRAY(SELECT own.id
FROM own)) AND tasks.parked || '' = 'scope';

-- name: task_park
-- why: Out of the way until the lease in its own ends; if it still is as it was looked at, and nobody is at it.
-- takes: parked_until instant, lease_id integer, task_id text, revision integer
-- gives: nothing
WITH as_seen AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = :task_id AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = ''
    AND tasks.revision = :revision FOR UPDATE SKIP LOCKED)
UPDATE tasks SET parked='scope', parked_until=:parked_until, parked_on=:lease_id
WHERE tasks.id = ANY (ARRAY(SELECT as_seen.id
FROM as_seen)) AND tasks.status || '' = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked || '' = '';

-- name: attempt_open
-- why: The attempt that a claim opens: its number is the fencing token.
-- takes: task_id text, attempt integer, agent text, session text
-- gives: nothing
INSERT INTO attempts (task_id, attempt, agent, session_id, started_at) VALUES (:task_id, :attempt, :agent, :session,
    (SELECT date_trunc('milliseconds', clock_timestamp())));

-- name: attempt_close
-- why: End the open attempt of a task; the answer says whose it was.
-- takes: outcome text, reason text, task_id text
-- gives: attempt integer, agent text, session_id text
UPDATE attempts SET ended_at=(SELECT date_trunc('milliseconds', clock_timestamp())), outcome=:outcome, reason=:reason
WHERE attempts.task_id = :task_id AND attempts.ended_at IS NULL
RETURNING attempts.attempt, attempts.agent, attempts.session_id;

-- name: attempt
-- why: One attempt, to explain why a handle is no longer current.
-- takes: task_id text, attempt integer
-- gives: task_id text, attempt integer, agent text, session_id text, started_at instant, ended_at instant, outcome
--   text, reason text
SELECT attempts.task_id, attempts.attempt, attempts.agent, attempts.session_id, attempts.started_at, attempts.ended_at,
    attempts.outcome, attempts.reason
FROM attempts
WHERE attempts.task_id = :task_id AND attempts.attempt = :attempt;

-- name: attempts_of_agent
-- why: How often an agent held a task: a bare id is accepted only from who held it once.
-- takes: task_id text, agent text
-- gives: count integer
SELECT count(attempts.attempt) AS count
FROM attempts
WHERE attempts.task_id = :task_id AND attempts.agent = :agent;

-- name: attempts_of_task
-- why: The latest attempts of a task.
-- takes: task_id text, limit integer
-- gives: task_id text, attempt integer, agent text, session_id text, started_at instant, ended_at instant, outcome
--   text, reason text
SELECT attempts.task_id, attempts.attempt, attempts.agent, attempts.session_id, attempts.started_at, attempts.ended_at,
    attempts.outcome, attempts.reason
FROM attempts
WHERE attempts.task_id = :task_id
ORDER BY attempts.attempt DESC

LIMIT :limit;

-- name: claim_renew
-- why: Renew the lease; never to a shorter time.
-- takes: lease_seconds integer, task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET lease_until=greatest(tasks.lease_until, (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT), tasks.lease_seconds, 900) AS DOUBLE
    PRECISION)))), revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_keep
-- why: Renew the lease as a sign of life: no revision, no history, no event.
-- takes: lease_seconds integer, task_id text, attempt integer, agent text
-- gives: lease_until instant, lease_seconds integer, scoped boolean
UPDATE tasks SET lease_until=greatest(tasks.lease_until, (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT), tasks.lease_seconds, 900) AS DOUBLE
    PRECISION))))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.lease_until, tasks.lease_seconds, tasks.scoped;

-- name: claim_complete
-- why: The work is done.
-- takes: result text, task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET status='DONE', assigned_agent=NULL, session_id=NULL, lease_until=NULL, result=:result,
    revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())),
    finished_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_submit
-- why: The work is done and waits for a review.
-- takes: result text, task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET status='IN_REVIEW', assigned_agent=NULL, session_id=NULL, lease_until=NULL, reviewer=NULL,
    review_until=NULL, result=:result, revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_block
-- why: The work cannot go on.
-- takes: task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET status='BLOCKED', assigned_agent=NULL, session_id=NULL, lease_until=NULL, revision=(tasks.revision +
    1), updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_release
-- why: Give the task back, to be claimed again at once or after a while.
-- takes: after_seconds integer, task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status='TODO', assigned_agent=NULL, session_id=NULL, lease_until=NULL, not_before=CASE WHEN
    (CAST(:after_seconds AS BIGINT) IS NOT NULL) THEN ((SELECT clock.now
FROM clock) + make_interval(secs => CAST(:after_seconds AS DOUBLE PRECISION))) ELSE tasks.not_before END, parked=CASE
    WHEN (CAST(:after_seconds AS BIGINT) IS NOT NULL) THEN 'later' ELSE CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END END, parked_until=CASE WHEN (CAST(:after_seconds AS BIGINT) IS NOT NULL) THEN
    ((SELECT clock.now
FROM clock) + make_interval(secs => CAST(:after_seconds AS DOUBLE PRECISION))) ELSE CASE WHEN (tasks.not_before >
    (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: claim_transfer
-- why: Hand the task to another agent: the next attempt begins with a fresh lease.
-- takes: to text, lease_seconds integer, task_id text, attempt integer, agent text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text, depends boolean
UPDATE tasks SET assigned_agent=:to, session_id=NULL, lease_until=(SELECT date_trunc('milliseconds', clock_timestamp())
    + make_interval(secs => CAST(coalesce(CAST(:lease_seconds AS BIGINT), tasks.lease_seconds, 900) AS DOUBLE
    PRECISION))), lease_seconds=coalesce(CAST(:lease_seconds AS BIGINT), tasks.lease_seconds, 900),
    attempt=(tasks.attempt + 1), revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_PROGRESS' AND tasks.attempt = :attempt AND tasks.assigned_agent =
    :agent
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id, EXISTS (SELECT task_dependencies.task_id
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id) AS depends;

-- name: task
-- why: One task.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.id = :task_id;

-- name: task_lock
-- why: One task, locked for the verb that follows. (SQLite has one writer anyway.)
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.id = :task_id FOR UPDATE;

-- name: task_lock_free
-- why: The same of one that nobody else has locked, for who waits for nobody.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.id = :task_id FOR UPDATE SKIP LOCKED;

-- name: task_share
-- why: Hold a task's row still while an edge to it is added: a completion waits, or was before.
-- takes: task_id text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.id = :task_id FOR SHARE;

-- name: tasks_by_dedup_key
-- why: The tasks that a retry means.
-- takes: dedup_keys list
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.dedup_key = ANY (CAST(:dedup_keys AS TEXT[]));

-- name: task_insert
-- why: A new task.
-- takes: id text, number integer, title text, body text, role_boundary text, project text, priority integer,
--   max_attempts integer, not_before instant, unmet_dependencies integer, parked text, parked_until instant, dedup_key
--   text, created_by text, folded text, created_at instant, scoped boolean
-- gives: nothing
INSERT INTO tasks (id, number, title, body, status, role_boundary, project, priority, max_attempts, not_before,
    unmet_dependencies, parked, parked_until, dedup_key, created_by, folded, created_at, updated_at, scoped) VALUES
    (:id, :number, :title, :body, 'TODO', :role_boundary, :project, :priority, :max_attempts, :not_before,
    :unmet_dependencies, :parked, :parked_until, :dedup_key, :created_by, :folded, :created_at, :created_at, :scoped);

-- name: scope_insert
-- why: A pattern that a task declares.
-- takes: task_id text, pattern text, mode text
-- gives: nothing
INSERT INTO task_scopes (task_id, pattern, mode) VALUES (:task_id, :pattern, :mode) ON CONFLICT (task_id, pattern) DO
    NOTHING;

-- name: scopes_delete
-- why: Forget what a task declared.
-- takes: task_id text
-- gives: nothing
DELETE FROM task_scopes
WHERE task_scopes.task_id = :task_id;

-- name: task_scoped
-- why: It declares scopes, or some are bound to it: whoever takes or ends it looks at leases.
-- takes: task_id text
-- gives: nothing
UPDATE tasks SET scoped=true
WHERE tasks.id = :task_id;

-- name: task_rescoped
-- why: Its scopes were replaced: the next claimer looks anew at what is in the way.
-- takes: task_id text
-- gives: nothing
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET parked=CASE WHEN (tasks.parked = 'scope') THEN CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END ELSE tasks.parked END, parked_until=CASE WHEN (tasks.parked = 'scope') THEN CASE
    WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END ELSE tasks.parked_until END, scoped=true, parked_on=NULL
WHERE tasks.id = :task_id;

-- name: task_set_aside
-- why: A task that was just taken, but whose scopes or response are another's: as if never taken, and out of the way;
--   what is reserved stays so, and is out of the way of others anyhow.
-- takes: parked text, parked_until instant, lease_id integer, task_id text
-- gives: nothing
UPDATE tasks SET status='TODO', assigned_agent=NULL, session_id=NULL, lease_until=NULL, attempt=(tasks.attempt - 1),
    parked=CASE WHEN (tasks.reserved_for IS NOT NULL) THEN 'reserved' ELSE :parked END, parked_until=CASE WHEN
    (tasks.reserved_for IS NOT NULL) THEN tasks.parked_until ELSE :parked_until END, revision=(tasks.revision - 1),
    parked_on=CASE WHEN (tasks.reserved_for IS NOT NULL) THEN NULL ELSE CAST(:lease_id AS BIGINT) END
WHERE tasks.id = :task_id;

-- name: scopes_of
-- why: What tasks declare.
-- takes: ids list
-- gives: task_id text, pattern text, mode text
SELECT task_scopes.task_id, task_scopes.pattern, task_scopes.mode
FROM task_scopes
WHERE task_scopes.task_id = ANY (CAST(:ids AS TEXT[]))
ORDER BY task_scopes.task_id, task_scopes.pattern;

-- name: task_unblock
-- why: Back into the queue, with fresh attempts.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status='TODO', expiries=0, parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'BLOCKED'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_answered
-- why: Back into the queue with fresh attempts, reserved for a while for whoever asked, or not before its time.
-- takes: seconds integer, reserved_for text, task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status='TODO', expiries=0, parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE 'reserved' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE (SELECT date_trunc('milliseconds', clock_timestamp()) + make_interval(secs =>
    CAST(:seconds AS DOUBLE PRECISION))) END, reserved_for=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN NULL ELSE :reserved_for END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'BLOCKED'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_await
-- why: The human took the answer back before anybody was handed it: the task waits again.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET status='BLOCKED', parked='', parked_until=NULL, reserved_for=NULL, revision=(tasks.revision + 1),
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), parked_on=NULL
WHERE tasks.id = :task_id AND tasks.status || '' = 'TODO'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_ask
-- why: The ask that hangs on a task now.
-- takes: ask_id text, task_id text
-- gives: nothing
UPDATE tasks SET ask_id=:ask_id
WHERE tasks.id = :task_id;

-- name: task_ask_over
-- why: That ask is closed.
-- takes: task_id text, ask_id text
-- gives: nothing
UPDATE tasks SET ask_id=NULL
WHERE tasks.id = :task_id AND tasks.ask_id = :ask_id;

-- name: review_count
-- why: How many tasks wait for a review, but for those that a human's approval decides.
-- takes: project text
-- gives: count integer
SELECT count(tasks.id) AS count
FROM tasks
WHERE tasks.status = 'IN_REVIEW' AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND NOT (EXISTS
    (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.action_owner = 'approval' AND asks.closed_at IS NULL AND asks.handled_at IS NULL));

-- name: task_approve
-- why: The review is passed.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET status='DONE', reviewer=NULL, review_until=NULL, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), finished_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_REVIEW'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_reject
-- why: Back into the queue; a new round of work begins.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status='TODO', expiries=0, parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, reviewer=NULL, review_until=NULL, rejected_attempt=tasks.attempt,
    revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_REVIEW'
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_cancel
-- why: Nobody shall do it any more.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET status='CANCELLED', assigned_agent=NULL, session_id=NULL, lease_until=NULL, parked='',
    parked_until=NULL, reserved_for=NULL, reviewer=NULL, review_until=NULL, revision=(tasks.revision + 1),
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), finished_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), parked_on=NULL
WHERE tasks.id = :task_id AND tasks.status || '' IN ('TODO', 'IN_PROGRESS', 'BLOCKED', 'IN_REVIEW')
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_reopen
-- why: Back into the queue, with fresh attempts and without a result.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET status='TODO', expiries=0, parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, result=NULL, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), finished_at=NULL
WHERE tasks.id = :task_id AND tasks.status || '' IN ('DONE', 'CANCELLED')
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_edit
-- why: Change what was given; what is absent stays.
-- takes: title text, body text, role text, project text, priority integer, max_attempts integer, not_before instant,
--   folded text, task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET title=:title, body=:body, role_boundary=:role, project=:project, priority=:priority,
    max_attempts=:max_attempts, not_before=:not_before, parked=CASE WHEN (tasks.parked = 'scope' AND tasks.project =
    :project) THEN tasks.parked WHEN (tasks.status = 'TODO' AND :not_before > (SELECT clock.now
FROM clock)) THEN 'later' WHEN (tasks.parked = 'reserved') THEN tasks.parked ELSE '' END, parked_until=CASE WHEN
    (tasks.parked = 'scope' AND tasks.project = :project) THEN tasks.parked_until WHEN (tasks.status = 'TODO' AND
    :not_before > (SELECT clock.now
FROM clock)) THEN :not_before WHEN (tasks.parked = 'reserved') THEN tasks.parked_until ELSE NULL END, reserved_for=CASE
    WHEN (tasks.parked = 'scope' AND tasks.project = :project) THEN tasks.reserved_for WHEN (tasks.status = 'TODO' AND
    :not_before > (SELECT clock.now
FROM clock)) THEN NULL WHEN (tasks.parked = 'reserved') THEN tasks.reserved_for ELSE NULL END, revision=(tasks.revision
    + 1), folded=:folded, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), parked_on=CASE WHEN
    (tasks.parked = 'scope' AND tasks.project = :project) THEN tasks.parked_on WHEN (tasks.status = 'TODO' AND
    :not_before > (SELECT clock.now
FROM clock)) THEN NULL WHEN (tasks.parked = 'reserved') THEN tasks.parked_on ELSE NULL END
WHERE tasks.id = :task_id
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: task_touch
-- why: Something about a task changed.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: tasks_lock
-- why: Several tasks, locked in one order so that two batches never wait for each other.
-- takes: ids list
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[]))
ORDER BY tasks.number FOR UPDATE;

-- name: tasks_set_priority
-- why: A new priority for several tasks.
-- takes: priority integer, ids list
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET priority=:priority, revision=(tasks.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE tasks.id = ANY (CAST(:ids AS TEXT[]))
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: tasks_set_project
-- why: A new project for several tasks; the scopes that others hold there are looked at anew.
-- takes: project text, ids list
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET project=:project, parked=CASE WHEN (tasks.parked = 'scope') THEN CASE WHEN (tasks.not_before > (SELECT
    clock.now
FROM clock)) THEN 'later' ELSE '' END ELSE tasks.parked END, parked_until=CASE WHEN (tasks.parked = 'scope') THEN CASE
    WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END ELSE tasks.parked_until END, revision=(tasks.revision + 1),
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), parked_on=NULL
WHERE tasks.id = ANY (CAST(:ids AS TEXT[]))
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: review_pick
-- why: Lock the first submitted task that nobody reviews and that the reviewer did not work on in this round.
-- takes: project text, task_id text, agent text
-- gives: id text
SELECT tasks.id
FROM tasks
WHERE tasks.status = 'IN_REVIEW' AND (tasks.reviewer IS NULL OR tasks.review_until <= (SELECT date_trunc('milliseconds',
    clock_timestamp()))) AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND (CAST(:task_id AS TEXT) IS
    NULL OR tasks.id = :task_id) AND NOT (EXISTS (SELECT attempts.attempt
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.attempt > tasks.rejected_attempt AND attempts.agent = :agent))
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: review_claim
-- why: Take it, unless the reviewer did this round of it meanwhile: the look before knew of no later attempts.
-- takes: agent text, lease_seconds integer, task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET reviewer=:agent, review_until=(SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(:lease_seconds AS DOUBLE PRECISION))), revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.status || '' = 'IN_REVIEW' AND (tasks.reviewer IS NULL OR tasks.review_until <=
    (SELECT date_trunc('milliseconds', clock_timestamp()))) AND NOT (EXISTS (SELECT attempts.attempt
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.attempt > tasks.rejected_attempt AND attempts.agent = :agent))
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: review_worked
-- why: Whether somebody held the task in this round of work.
-- takes: task_id text, rejected_attempt integer, agent text
-- gives: worked boolean
SELECT EXISTS (SELECT attempts.attempt
FROM attempts
WHERE attempts.task_id = :task_id AND attempts.attempt > :rejected_attempt AND attempts.agent = :agent) AS worked;

-- name: review_ids
-- why: A page of what waits for review: first what this reviewer may judge: what is refused hides none of it.
-- takes: project text, agent text, override text, limit integer
-- gives: id text, priority integer, created_at instant, number integer
SELECT tasks.id, tasks.priority, tasks.created_at, tasks.number
FROM tasks
WHERE tasks.status = 'IN_REVIEW' AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
ORDER BY CASE WHEN (tasks.reviewer != :agent AND tasks.review_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) OR CAST(:override AS TEXT) IS NULL AND (EXISTS (SELECT attempts.attempt
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.attempt > tasks.rejected_attempt AND attempts.agent = :agent))) THEN 1
    ELSE 0 END, tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: edge_insert
-- why: An edge, met if the dependency is done: its row is held still by task_share, and this is a later statement.
-- takes: task_id text, depends_on text
-- gives: met boolean
INSERT INTO task_dependencies (task_id, depends_on_task_id, met) VALUES (:task_id, :depends_on, (SELECT tasks.status =
    'DONE' AS met
FROM tasks
WHERE tasks.id = :depends_on)) ON CONFLICT (task_id, depends_on_task_id) DO NOTHING
RETURNING task_dependencies.met;

-- name: edge_insert_known
-- why: An edge of a new task, whose dependency is held still or new itself.
-- takes: task_id text, depends_on text, met boolean
-- gives: nothing
INSERT INTO task_dependencies (task_id, depends_on_task_id, met) VALUES (:task_id, :depends_on, :met);

-- name: edge_delete
-- why: Remove an edge; the answer says whether it was met.
-- takes: task_id text, depends_on text
-- gives: met boolean
DELETE FROM task_dependencies
WHERE task_dependencies.task_id = :task_id AND task_dependencies.depends_on_task_id = :depends_on
RETURNING task_dependencies.met;

-- name: edges_unmeet
-- why: The dependency is done no more: turn the edges back.
-- takes: depends_on text
-- gives: task_id text
UPDATE task_dependencies SET met=false
WHERE task_dependencies.depends_on_task_id = :depends_on AND task_dependencies.met IS true
RETURNING task_dependencies.task_id;

-- name: dependents_count_down
-- why: What was turned is subtracted; the answer says who became ready.
-- takes: ids list
-- gives: id text, status text, unmet_dependencies integer, parked text
WITH in_turn AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[]))
ORDER BY tasks.number FOR UPDATE)
UPDATE tasks SET unmet_dependencies=(tasks.unmet_dependencies - 1)
WHERE tasks.id = ANY (ARRAY(SELECT in_turn.id
FROM in_turn))
RETURNING tasks.id, tasks.status, tasks.unmet_dependencies, tasks.parked;

-- name: dependents_release
-- why: The dependency is done: turn the edges that were not met, subtract what was turned, wake whoever waits for work.
-- takes: depends_on text
-- gives: woken boolean
WITH turned AS
(UPDATE task_dependencies SET met=true
WHERE task_dependencies.depends_on_task_id = :depends_on AND task_dependencies.met IS false
RETURNING task_dependencies.task_id AS id),
in_turn AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (ARRAY(SELECT turned.id
FROM turned))
ORDER BY tasks.number FOR UPDATE),
freed AS
(UPDATE tasks SET unmet_dependencies=(tasks.unmet_dependencies - 1)
WHERE tasks.id = ANY (ARRAY(SELECT in_turn.id
FROM in_turn))
RETURNING tasks.id, tasks.status, tasks.unmet_dependencies, tasks.parked)
SELECT pg_notify('coordinate_' || CASE WHEN octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE
    current_schema() END, 'ready') IS NULL AS woken
FROM freed
WHERE freed.status = 'TODO' AND freed.unmet_dependencies = 0 AND freed.parked = ''

LIMIT 1;

-- name: dependents_count_up
-- why: What was turned back is added.
-- takes: ids list
-- gives: id text
WITH in_turn AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[]))
ORDER BY tasks.number FOR UPDATE)
UPDATE tasks SET unmet_dependencies=(tasks.unmet_dependencies + 1)
WHERE tasks.id = ANY (ARRAY(SELECT in_turn.id
FROM in_turn))
RETURNING tasks.id;

-- name: tasks_lock_along
-- why: Several tasks that will be finished, and those that wait for them, locked in one order before the first changes.
-- takes: ids list
-- gives: id text, ask_id text
WITH concerned AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.id = ANY (CAST(:ids AS TEXT[])) UNION SELECT task_dependencies.task_id AS task_id
FROM task_dependencies
WHERE task_dependencies.depends_on_task_id = ANY (CAST(:ids AS TEXT[])) AND task_dependencies.met IS false)
SELECT tasks.id, tasks.ask_id
FROM tasks
WHERE tasks.id = ANY (ARRAY(SELECT concerned.id
FROM concerned))
ORDER BY tasks.number FOR UPDATE;

-- name: dependent_counts
-- why: A task got one more unmet edge.
-- takes: task_id text
-- gives: nothing
UPDATE tasks SET unmet_dependencies=(tasks.unmet_dependencies + 1)
WHERE tasks.id = :task_id;

-- name: edges_of
-- why: What tasks depend on, with where each stands.
-- takes: ids list
-- gives: task_id text, depends_on_task_id text, met boolean, title text, status text
SELECT task_dependencies.task_id, task_dependencies.depends_on_task_id, task_dependencies.met, tasks.title, tasks.status
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.depends_on_task_id
WHERE task_dependencies.task_id = ANY (CAST(:ids AS TEXT[]))
ORDER BY task_dependencies.task_id, tasks.number;

-- name: dependencies_of
-- why: The same with what came of it, which may be long.
-- takes: ids list
-- gives: task_id text, depends_on_task_id text, met boolean, title text, status text, result text
SELECT task_dependencies.task_id, task_dependencies.depends_on_task_id, task_dependencies.met, tasks.title,
    tasks.status, tasks.result
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.depends_on_task_id
WHERE task_dependencies.task_id = ANY (CAST(:ids AS TEXT[]))
ORDER BY task_dependencies.task_id, tasks.number;

-- name: dependents_of
-- why: Who depends on a task.
-- takes: task_id text, limit integer
-- gives: id text, number integer
SELECT tasks.id, tasks.number
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id
WHERE task_dependencies.depends_on_task_id = :task_id
ORDER BY tasks.number

LIMIT :limit;

-- name: dependents_count
-- why: How many they are.
-- takes: task_id text
-- gives: count integer
SELECT count(tasks.id) AS count
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id
WHERE task_dependencies.depends_on_task_id = :task_id;

-- name: stranded_of
-- why: Live tasks that wait for one.
-- takes: task_id text, limit integer
-- gives: id text, number integer
SELECT tasks.id, tasks.number
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id
WHERE task_dependencies.depends_on_task_id = :task_id AND task_dependencies.met IS false AND (tasks.status NOT IN
    ('DONE', 'CANCELLED'))
ORDER BY tasks.number

LIMIT :limit;

-- name: stranded_count
-- why: How many they are.
-- takes: task_id text
-- gives: count integer
SELECT count(tasks.id) AS count
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id
WHERE task_dependencies.depends_on_task_id = :task_id AND task_dependencies.met IS false AND (tasks.status NOT IN
    ('DONE', 'CANCELLED'));

-- name: edge_reaches
-- why: Whether one task waits for another, directly or through others: such an edge would close a circle.
-- takes: from_task text, to_task text
-- gives: reaches boolean
WITH RECURSIVE reach(id) AS
(SELECT task_dependencies.depends_on_task_id AS id
FROM task_dependencies
WHERE task_dependencies.task_id = :from_task UNION SELECT task_dependencies.depends_on_task_id AS depends_on_task_id
FROM task_dependencies JOIN reach ON task_dependencies.task_id >= reach.id AND task_dependencies.task_id <= reach.id)
SELECT EXISTS (SELECT reach.id
FROM reach
WHERE reach.id = :to_task) AS reaches;

-- name: note_insert
-- why: A note on a task.
-- takes: task_id text, author text, note_type text, content text, content_folded text
-- gives: nothing
INSERT INTO notes (task_id, author, note_type, content, folded, created_at) VALUES (:task_id, :author, :note_type,
    :content, :content_folded, (SELECT date_trunc('milliseconds', clock_timestamp())));

-- name: note_write
-- why: The same on a task that may not be there; the answer is its id and time.
-- takes: task_id text, author text, note_type text, content text, content_folded text
-- gives: id integer, created_at instant
INSERT INTO notes (task_id, author, note_type, content, folded, created_at) SELECT :task_id AS task_id, :author AS
    author, :note_type AS note_type, :content AS content, :content_folded AS folded, (SELECT date_trunc('milliseconds',
    clock_timestamp())) AS created_at
FROM tasks
WHERE tasks.id = :task_id
RETURNING notes.id, notes.created_at;

-- name: notes_of
-- why: The newest notes of a task; `before` pages back.
-- takes: task_id text, before integer, limit integer
-- gives: id integer, task_id text, author text, note_type text, content text, created_at instant
SELECT notes.id, notes.task_id, notes.author, notes.note_type, notes.content, notes.created_at
FROM notes
WHERE notes.task_id = :task_id AND (CAST(:before AS BIGINT) IS NULL OR notes.id < :before)
ORDER BY notes.id DESC

LIMIT :limit;

-- name: note_of_block
-- why: Why a task is BLOCKED: the newest note that says so, whatever was written on it since.
-- takes: task_id text
-- gives: content text
SELECT notes.content
FROM notes
WHERE notes.task_id = :task_id AND notes.note_type IN ('BLOCKED', 'SYSTEM')
ORDER BY notes.id DESC

LIMIT 1;

-- name: history_insert
-- why: What happened to a task.
-- takes: task_id text, agent text, action text, attempt integer, detail text
-- gives: nothing
INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, (SELECT date_trunc('milliseconds', clock_timestamp())));

-- name: history_dispatched
-- why: That new tasks were dispatched.
-- takes: first integer, last integer
-- gives: nothing
INSERT INTO history (task_id, agent, action, created_at) SELECT tasks.id, tasks.created_by, 'DISPATCH' AS action,
    (SELECT date_trunc('milliseconds', clock_timestamp())) AS created_at
FROM tasks
WHERE tasks.number BETWEEN :first AND :last
ORDER BY tasks.number;

-- name: change_told
-- why: What happened to a task, and its event.
-- takes: event_type text, payload text, ttl_seconds integer, project text, agent text, ref text, message text, folded
--   text, task_id text, action text, attempt integer, detail text, topic text
-- gives: woken boolean
WITH told AS
(INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, (SELECT date_trunc('milliseconds', clock_timestamp()))))
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES ((SELECT
    date_trunc('milliseconds', clock_timestamp())), :event_type, CAST(:payload AS JSON), :ttl_seconds, :project, :agent,
    :ref, :message, :folded)
RETURNING CASE WHEN (CAST(:topic AS TEXT) IS NOT NULL) THEN pg_notify('coordinate_' || CASE WHEN
    octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE current_schema() END, CAST(:topic AS TEXT)) IS
    NULL ELSE NULL END AS woken;

-- name: note_told
-- why: The same with a note.
-- takes: event_type text, payload text, ttl_seconds integer, project text, agent text, ref text, message text, folded
--   text, task_id text, action text, attempt integer, detail text, author text, note_type text, content text,
--   content_folded text, topic text
-- gives: woken boolean
WITH told AS
(INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, (SELECT date_trunc('milliseconds', clock_timestamp())))),
noted AS
(INSERT INTO notes (task_id, author, note_type, content, folded, created_at) VALUES (:task_id, :author, :note_type,
    :content, :content_folded, (SELECT date_trunc('milliseconds', clock_timestamp()))))
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES ((SELECT
    date_trunc('milliseconds', clock_timestamp())), :event_type, CAST(:payload AS JSON), :ttl_seconds, :project, :agent,
    :ref, :message, :folded)
RETURNING CASE WHEN (CAST(:topic AS TEXT) IS NOT NULL) THEN pg_notify('coordinate_' || CASE WHEN
    octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE current_schema() END, CAST(:topic AS TEXT)) IS
    NULL ELSE NULL END AS woken;

-- name: claim_told
-- why: The same with the attempt that a claim opens.
-- takes: event_type text, payload text, ttl_seconds integer, project text, agent text, ref text, message text, folded
--   text, task_id text, action text, attempt integer, detail text, session text, topic text
-- gives: woken boolean
WITH told AS
(INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, (SELECT date_trunc('milliseconds', clock_timestamp())))),
opened AS
(INSERT INTO attempts (task_id, attempt, agent, session_id, started_at) VALUES (:task_id, :attempt, :agent, :session,
    (SELECT date_trunc('milliseconds', clock_timestamp()))))
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES ((SELECT
    date_trunc('milliseconds', clock_timestamp())), :event_type, CAST(:payload AS JSON), :ttl_seconds, :project, :agent,
    :ref, :message, :folded)
RETURNING CASE WHEN (CAST(:topic AS TEXT) IS NOT NULL) THEN pg_notify('coordinate_' || CASE WHEN
    octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE current_schema() END, CAST(:topic AS TEXT)) IS
    NULL ELSE NULL END AS woken;

-- name: leave_told
-- why: The same with the attempt that its holder ends.
-- takes: event_type text, payload text, ttl_seconds integer, project text, agent text, ref text, message text, folded
--   text, task_id text, action text, attempt integer, detail text, outcome text, reason text, topic text
-- gives: woken boolean
WITH told AS
(INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, (SELECT date_trunc('milliseconds', clock_timestamp())))),
closed AS
(UPDATE attempts SET ended_at=(SELECT date_trunc('milliseconds', clock_timestamp())), outcome=:outcome, reason=:reason
WHERE attempts.task_id = :task_id AND attempts.ended_at IS NULL
RETURNING attempts.attempt, attempts.agent, attempts.session_id)
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES ((SELECT
    date_trunc('milliseconds', clock_timestamp())), :event_type, CAST(:payload AS JSON), :ttl_seconds, :project, :agent,
    :ref, :message, :folded)
RETURNING CASE WHEN (CAST(:topic AS TEXT) IS NOT NULL) THEN pg_notify('coordinate_' || CASE WHEN
    octet_length(current_schema()) > 52 THEN md5(current_schema()) ELSE current_schema() END, CAST(:topic AS TEXT)) IS
    NULL ELSE NULL END AS woken;

-- name: history_of
-- why: The newest history of a task; `before` pages back.
-- takes: task_id text, before integer, limit integer
-- gives: id integer, task_id text, agent text, action text, attempt integer, detail text, created_at instant
SELECT history.id, history.task_id, history.agent, history.action, history.attempt, history.detail, history.created_at
FROM history
WHERE history.task_id = :task_id AND (CAST(:before AS BIGINT) IS NULL OR history.id < :before)
ORDER BY history.id DESC

LIMIT :limit;

-- name: notes_prunable
-- why: A batch of old notes of finished tasks.
-- takes: after integer, before instant, limit integer
-- gives: id integer
SELECT notes.id
FROM notes
WHERE notes.id > :after AND notes.created_at < :before AND notes.task_id IN (SELECT tasks.id
FROM tasks
WHERE tasks.status IN ('DONE', 'CANCELLED'))
ORDER BY notes.id

LIMIT :limit;

-- name: notes_delete
-- why: Remove such a batch; notes of live tasks stay, whatever their age.
-- takes: after integer, through integer, before instant
-- gives: nothing
DELETE FROM notes
WHERE notes.id > :after AND notes.id <= :through AND notes.created_at < :before AND notes.task_id IN (SELECT tasks.id
FROM tasks
WHERE tasks.status IN ('DONE', 'CANCELLED'));

-- name: history_prunable
-- why: A batch of old history of finished tasks.
-- takes: after integer, before instant, limit integer
-- gives: id integer
SELECT history.id
FROM history
WHERE history.id > :after AND history.created_at < :before AND history.task_id IN (SELECT tasks.id
FROM tasks
WHERE tasks.status IN ('DONE', 'CANCELLED'))
ORDER BY history.id

LIMIT :limit;

-- name: history_delete
-- why: Remove such a batch; history of live tasks stay, whatever their age.
-- takes: after integer, through integer, before instant
-- gives: nothing
DELETE FROM history
WHERE history.id > :after AND history.id <= :through AND history.created_at < :before AND history.task_id IN (SELECT
    tasks.id
FROM tasks
WHERE tasks.status IN ('DONE', 'CANCELLED'));

-- name: tasks_list
-- why: A page of tasks in the queue's order.
-- takes: status text, role text, agent text, project text, after_number integer, after_priority integer,
--   after_created_at instant, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE (CAST(:status AS TEXT) IS NULL OR tasks.status = :status) AND (CAST(:role AS TEXT) IS NULL OR tasks.role_boundary
    = :role) AND (CAST(:agent AS TEXT) IS NULL OR tasks.assigned_agent = :agent) AND (CAST(:project AS TEXT) IS NULL OR
    tasks.project = :project) AND (CAST(:after_number AS BIGINT) IS NULL OR (tasks.priority, tasks.created_at,
    tasks.number) > (:after_priority, :after_created_at, :after_number))
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: tasks_search
-- why: A page of tasks whose title, body or notes hold a text; literal and case-folded.
-- takes: status text, role text, agent text, project text, needle text, after_number integer, after_priority integer,
--   after_created_at instant, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE (CAST(:status AS TEXT) IS NULL OR tasks.status = :status) AND (CAST(:role AS TEXT) IS NULL OR tasks.role_boundary
    = :role) AND (CAST(:agent AS TEXT) IS NULL OR tasks.assigned_agent = :agent) AND (CAST(:project AS TEXT) IS NULL OR
    tasks.project = :project) AND (strpos(tasks.folded, :needle) > 0 OR (EXISTS (SELECT notes.id
FROM notes
WHERE notes.task_id = tasks.id AND strpos(notes.folded, :needle) > 0))) AND (CAST(:after_number AS BIGINT) IS NULL OR
    (tasks.priority, tasks.created_at, tasks.number) > (:after_priority, :after_created_at, :after_number))
ORDER BY tasks.priority, tasks.created_at, tasks.number

LIMIT :limit;

-- name: tasks_held
-- why: What an agent holds now.
-- takes: agent text, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.assigned_agent = :agent
ORDER BY tasks.number

LIMIT :limit;

-- name: handles_held
-- why: The handles of what an agent holds now; answered from the index and the row's attempt.
-- takes: agent text, limit integer
-- gives: handle text
SELECT tasks.id || '@' || CAST(tasks.attempt AS TEXT) AS handle
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.assigned_agent = :agent
ORDER BY tasks.number

LIMIT :limit;

-- name: tasks_after
-- why: A page of all tasks by number, for an export.
-- takes: after integer, limit integer
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
SELECT tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id
FROM tasks
WHERE tasks.number > :after
ORDER BY tasks.number

LIMIT :limit;

-- name: tasks_any
-- why: Whether there is any task.
-- takes: nothing
-- gives: any boolean
SELECT EXISTS (SELECT tasks.id
FROM tasks) AS "any";

-- name: tasks_counts
-- why: How many tasks stand where, by role.
-- takes: project text
-- gives: status text, role_boundary text, count integer
SELECT tasks.status, tasks.role_boundary, count(tasks.id) AS count
FROM tasks
WHERE CAST(:project AS TEXT) IS NULL OR tasks.project = :project
GROUP BY tasks.status, tasks.role_boundary
ORDER BY tasks.status, tasks.role_boundary;

-- name: tasks_expired_count
-- why: How many leases are past and not yet taken back.
-- takes: project text
-- gives: count integer
SELECT count(tasks.id) AS count
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until <= (SELECT date_trunc('milliseconds', clock_timestamp())) AND
    (CAST(:project AS TEXT) IS NULL OR tasks.project = :project);

-- name: burn_created
-- why: How many tasks came in on each day.
-- takes: since instant, project text
-- gives: day text, count integer
SELECT to_char(tasks.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, count(tasks.id) AS count
FROM tasks
WHERE tasks.created_at >= :since AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY to_char(tasks.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
ORDER BY to_char(tasks.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD');

-- name: burn_finished
-- why: How many tasks were done or cancelled on each day.
-- takes: since instant, project text
-- gives: day text, status text, count integer
SELECT to_char(tasks.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, tasks.status, count(tasks.id) AS count
FROM tasks
WHERE tasks.finished_at >= :since AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY to_char(tasks.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), tasks.status
ORDER BY to_char(tasks.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), tasks.status;

-- name: tasks_finished
-- why: The tasks that ended last, with their last attempt.
-- takes: status text, role text, project text, agent text, needle text, before_number integer, before instant, limit
--   integer
-- gives: id text, number integer, title text, status text, role_boundary text, project text, priority integer,
--   created_at instant, finished_at instant, agent text, started_at instant
SELECT tasks.id, tasks.number, tasks.title, tasks.status, tasks.role_boundary, tasks.project, tasks.priority,
    tasks.created_at, tasks.finished_at, latest.agent, latest.started_at
FROM tasks LEFT OUTER JOIN attempts AS latest ON latest.task_id = tasks.id AND latest.attempt = (SELECT
    max(attempts.attempt) AS max_1
FROM attempts
WHERE attempts.task_id = tasks.id)
WHERE tasks.finished_at IS NOT NULL AND (CAST(:status AS TEXT) IS NULL OR tasks.status = :status) AND (CAST(:role AS
    TEXT) IS NULL OR tasks.role_boundary = :role) AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND
    (CAST(:agent AS TEXT) IS NULL OR latest.agent = :agent) AND (CAST(:needle AS TEXT) IS NULL OR strpos(tasks.folded,
    :needle) > 0) AND (CAST(:before_number AS BIGINT) IS NULL OR (tasks.finished_at, tasks.number) < (:before,
    :before_number))
ORDER BY tasks.finished_at DESC, tasks.number DESC

LIMIT :limit;

-- name: attempts_by_day
-- why: How many attempts ended how on each day.
-- takes: since instant, project text
-- gives: day text, outcome text, count integer
SELECT to_char(attempts.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, attempts.outcome, count(attempts.attempt) AS
    count
FROM attempts JOIN tasks ON tasks.id = attempts.task_id
WHERE attempts.ended_at >= :since AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY to_char(attempts.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), attempts.outcome
ORDER BY to_char(attempts.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), attempts.outcome;

-- name: attempts_by_agent
-- why: How many attempts of each agent ended how, of those with most.
-- takes: since instant, project text, limit integer
-- gives: agent text, outcome text, count integer
WITH busiest AS
(SELECT attempts.agent AS agent, count(attempts.attempt) AS count
FROM attempts JOIN tasks ON tasks.id = attempts.task_id
WHERE attempts.ended_at >= :since AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY attempts.agent
ORDER BY count DESC, attempts.agent

LIMIT :limit)
SELECT attempts.agent, attempts.outcome, count(attempts.attempt) AS count
FROM attempts JOIN tasks ON tasks.id = attempts.task_id JOIN busiest ON busiest.agent = attempts.agent
WHERE attempts.ended_at >= :since AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY busiest.count, attempts.agent, attempts.outcome
ORDER BY busiest.count DESC, attempts.agent, attempts.outcome;

-- name: tasks_unreachable
-- why: Live tasks that wait for a cancelled one, and for which: without somebody's help they never become ready.
-- takes: project text, role text, limit integer
-- gives: id text, title text, project text, number integer, depends_on text
SELECT tasks.id, tasks.title, tasks.project, tasks.number, dependency.id AS depends_on
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id JOIN tasks AS dependency ON dependency.id =
    task_dependencies.depends_on_task_id
WHERE task_dependencies.met IS false AND dependency.status = 'CANCELLED' AND (tasks.status NOT IN ('DONE', 'CANCELLED'))
    AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND (CAST(:role AS TEXT) IS NULL OR
    tasks.role_boundary = :role)
ORDER BY tasks.number, dependency.number

LIMIT :limit;

-- name: unreachable_ids
-- why: Each of these tasks once, however many it waits for in vain.
-- takes: project text, role text, limit integer
-- gives: id text, number integer
SELECT DISTINCT tasks.id, tasks.number
FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id JOIN tasks AS dependency ON dependency.id =
    task_dependencies.depends_on_task_id
WHERE task_dependencies.met IS false AND dependency.status = 'CANCELLED' AND (tasks.status NOT IN ('DONE', 'CANCELLED'))
    AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND (CAST(:role AS TEXT) IS NULL OR
    tasks.role_boundary = :role)
ORDER BY tasks.number

LIMIT :limit;

-- name: tasks_blocked
-- why: What is BLOCKED, for a look.
-- takes: project text, limit integer
-- gives: id text, number integer
SELECT tasks.id, tasks.number
FROM tasks
WHERE tasks.status = 'BLOCKED' AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
ORDER BY tasks.number

LIMIT :limit;

-- name: tasks_twins
-- why: Live tasks of one title and role: perhaps dispatched twice.
-- takes: project text, limit integer
-- gives: first integer, count integer
SELECT min(tasks.number) AS first, count(tasks.id) AS count
FROM tasks
WHERE (tasks.status NOT IN ('DONE', 'CANCELLED')) AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project)
GROUP BY tasks.title, tasks.role_boundary, tasks.project
HAVING count(tasks.id) > 1
ORDER BY min(tasks.number)

LIMIT :limit;

-- name: queue_census
-- why: Why a role finds nothing: how many of its tasks stand where, and the next due time.
-- takes: role text, project text
-- gives: total integer, ready integer, waiting integer, later integer, scope integer, held integer, blocked integer,
--   in_review integer, next_expiry instant, next_due instant
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
SELECT count(tasks.id) AS total, coalesce(sum(CASE WHEN (tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND NOT
    (tasks.parked != '' AND (tasks.parked_until IS NULL OR tasks.parked_until > (SELECT clock.now
FROM clock)) OR tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT clock.now
FROM clock)) IS NOT NULL)) THEN 1 ELSE 0 END), 0) AS ready, coalesce(sum(CASE WHEN (tasks.status = 'TODO' AND
    tasks.unmet_dependencies > 0) THEN 1 ELSE 0 END), 0) AS waiting, coalesce(sum(CASE WHEN (tasks.status = 'TODO' AND
    tasks.unmet_dependencies = 0 AND (tasks.parked != '' AND (tasks.parked_until IS NULL OR tasks.parked_until > (SELECT
    clock.now
FROM clock)) OR tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT clock.now
FROM clock)) IS NOT NULL) AND NOT (tasks.parked = 'scope' AND (tasks.parked_until IS NULL OR tasks.parked_until >
    (SELECT clock.now
FROM clock)))) THEN 1 ELSE 0 END), 0) AS later, coalesce(sum(CASE WHEN (tasks.status = 'TODO' AND
    tasks.unmet_dependencies = 0 AND tasks.parked = 'scope' AND (tasks.parked_until IS NULL OR tasks.parked_until >
    (SELECT clock.now
FROM clock))) THEN 1 ELSE 0 END), 0) AS scope, coalesce(sum(CASE WHEN (tasks.status = 'IN_PROGRESS') THEN 1 ELSE 0 END),
    0) AS held, coalesce(sum(CASE WHEN (tasks.status = 'BLOCKED') THEN 1 ELSE 0 END), 0) AS blocked, coalesce(sum(CASE
    WHEN (tasks.status = 'IN_REVIEW') THEN 1 ELSE 0 END), 0) AS in_review, min(CASE WHEN (tasks.status = 'IN_PROGRESS')
    THEN tasks.lease_until END) AS next_expiry, min(CASE WHEN (tasks.parked != '' AND (tasks.parked_until IS NULL OR
    tasks.parked_until > (SELECT clock.now
FROM clock)) OR tasks.ask_id IS NOT NULL AND (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT clock.now
FROM clock)) IS NOT NULL) THEN tasks.parked_until END) AS next_due
FROM tasks
WHERE tasks.role_boundary = :role AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project) AND (tasks.status NOT
    IN ('DONE', 'CANCELLED'));

-- name: queue_next_due
-- why: When a claim next finds something to bring back: the first lease to end, the first task to come due; also past.
-- takes: nothing
-- gives: expiry instant, due instant, now instant
SELECT (SELECT tasks.lease_until
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until IS NOT NULL
ORDER BY tasks.lease_until

LIMIT 1) AS expiry, (SELECT tasks.parked_until
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until IS NOT NULL
ORDER BY tasks.parked_until

LIMIT 1) AS due, (SELECT date_trunc('milliseconds', clock_timestamp())) AS now;

-- name: queue_next_change
-- why: The same of what is to come, for whoever only looks and brings nothing back.
-- takes: nothing
-- gives: expiry instant, due instant, now instant
SELECT (SELECT tasks.lease_until
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until > (SELECT date_trunc('milliseconds', clock_timestamp())) AND
    tasks.lease_until IS NOT NULL
ORDER BY tasks.lease_until

LIMIT 1) AS expiry, (SELECT tasks.parked_until
FROM tasks
WHERE tasks.parked != '' AND tasks.parked_until > (SELECT date_trunc('milliseconds', clock_timestamp())) AND
    tasks.parked_until IS NOT NULL
ORDER BY tasks.parked_until

LIMIT 1) AS due, (SELECT date_trunc('milliseconds', clock_timestamp())) AS now;

-- name: queue_has_work
-- why: Whether a claim of a role would find something: ready, or due, or held for longer than its lease.
-- takes: role text, project text
-- gives: work boolean
SELECT (EXISTS (SELECT 1
FROM tasks
WHERE tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND NOT (tasks.ask_id IS NOT NULL AND
    (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.handled_at IS NOT NULL AND asks.taken_until > (SELECT date_trunc('milliseconds',
    clock_timestamp()))) IS NOT NULL) AND tasks.role_boundary = :role AND (CAST(:project AS TEXT) IS NULL OR
    tasks.project = :project))) OR (EXISTS (SELECT 1
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.lease_until <= (SELECT date_trunc('milliseconds', clock_timestamp())) AND
    tasks.role_boundary = :role AND (CAST(:project AS TEXT) IS NULL OR tasks.project = :project))) OR (EXISTS (SELECT 1
FROM tasks
WHERE tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked != '' AND tasks.parked_until <= (SELECT
    date_trunc('milliseconds', clock_timestamp())) AND tasks.role_boundary = :role AND (CAST(:project AS TEXT) IS NULL
    OR tasks.project = :project))) AS work;

-- name: roles_with_ready
-- why: Which roles have ready tasks, for whoever asks with the wrong one.
-- takes: project text
-- gives: role_boundary text, count integer
SELECT tasks.role_boundary, count(tasks.id) AS count
FROM tasks
WHERE tasks.status = 'TODO' AND tasks.unmet_dependencies = 0 AND tasks.parked = '' AND (CAST(:project AS TEXT) IS NULL
    OR tasks.project = :project)
GROUP BY tasks.role_boundary
ORDER BY tasks.role_boundary

LIMIT 20;

-- name: project_insert
-- why: Settings of a project begin with its name.
-- takes: name text
-- gives: nothing
INSERT INTO projects (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: project_set
-- why: A project's default lease and attempts.
-- takes: lease_seconds integer, max_attempts integer, name text
-- gives: name text, lease_seconds integer, max_attempts integer, closed_at instant
UPDATE projects SET lease_seconds=:lease_seconds, max_attempts=:max_attempts
WHERE projects.name = :name
RETURNING projects.name, projects.lease_seconds, projects.max_attempts, projects.closed_at;

-- name: project
-- why: A project's settings.
-- takes: name text
-- gives: name text, lease_seconds integer, max_attempts integer
SELECT projects.name, projects.lease_seconds, projects.max_attempts
FROM projects
WHERE projects.name = :name;

-- name: projects_attempts
-- why: How many attempts projects give their tasks, where they say it.
-- takes: projects list
-- gives: name text, max_attempts integer
SELECT projects.name, projects.max_attempts
FROM projects
WHERE projects.name = ANY (CAST(:projects AS TEXT[])) AND projects.max_attempts IS NOT NULL;

-- name: projects_list
-- why: All projects that have tasks, asks, boards or settings.
-- takes: limit integer
-- gives: name text, lease_seconds integer, max_attempts integer, closed_at instant
WITH RECURSIVE of_tasks(name, place) AS
(SELECT min(tasks.project) AS name, 1 AS place
FROM tasks UNION ALL SELECT (SELECT min(tasks.project) AS name
FROM tasks
WHERE tasks.project > of_tasks.name) AS name, of_tasks.place + 1 AS place
FROM of_tasks
WHERE of_tasks.name IS NOT NULL AND of_tasks.place < :limit),
of_asks(name, place) AS
(SELECT min(asks.project) AS name, 1 AS place
FROM asks UNION ALL SELECT (SELECT min(asks.project) AS name
FROM asks
WHERE asks.project > of_asks.name) AS name, of_asks.place + 1 AS place
FROM of_asks
WHERE of_asks.name IS NOT NULL AND of_asks.place < :limit),
of_boards(name, place) AS
(SELECT min(boards.project) AS name, 1 AS place
FROM boards UNION ALL SELECT (SELECT min(boards.project) AS name
FROM boards
WHERE boards.project > of_boards.name) AS name, of_boards.place + 1 AS place
FROM of_boards
WHERE of_boards.name IS NOT NULL AND of_boards.place < :limit)
SELECT names.name, projects.lease_seconds, projects.max_attempts, projects.closed_at
FROM (SELECT of_tasks.name AS name
FROM of_tasks UNION SELECT of_asks.name AS name
FROM of_asks UNION SELECT of_boards.name AS name
FROM of_boards UNION SELECT projects.name AS name
FROM projects) AS names LEFT OUTER JOIN projects ON projects.name = names.name
WHERE names.name IS NOT NULL
ORDER BY names.name

LIMIT :limit;

-- name: adopt_tasks
-- why: A task of an adopted board, as it stands there: holder, lease and attempt too.
-- takes: id text, number integer, title text, body text, status text, role text, project text, priority integer, agent
--   text, lease_until instant, attempt integer, claimed_by text, unmet_dependencies integer, rejected_attempt integer,
--   folded text, created_at instant, updated_at instant, finished_at instant
-- gives: nothing
INSERT INTO tasks (id, number, title, body, status, role_boundary, project, priority, assigned_agent, lease_until,
    attempt, claimed_by, max_attempts, unmet_dependencies, rejected_attempt, folded, created_at, updated_at,
    finished_at) VALUES (:id, :number, :title, :body, :status, :role, :project, :priority, :agent, :lease_until,
    :attempt, :claimed_by, 5, :unmet_dependencies, :rejected_attempt, :folded, :created_at, :updated_at, :finished_at);

-- name: adopt_task_dependencies
-- why: An edge of an adopted board.
-- takes: task_id text, depends_on text, met boolean
-- gives: nothing
INSERT INTO task_dependencies (task_id, depends_on_task_id, met) VALUES (:task_id, :depends_on, :met);

-- name: adopt_attempts
-- why: An attempt that the history of an adopted board tells of.
-- takes: task_id text, attempt integer, agent text, started_at instant, ended_at instant, outcome text, reason text
-- gives: nothing
INSERT INTO attempts (task_id, attempt, agent, started_at, ended_at, outcome, reason) VALUES (:task_id, :attempt,
    :agent, :started_at, :ended_at, :outcome, :reason);

-- name: adopt_notes
-- why: A note of an adopted board, with its own time.
-- takes: task_id text, author text, note_type text, content text, folded text, created_at instant
-- gives: id integer
INSERT INTO notes (task_id, author, note_type, content, folded, created_at) VALUES (:task_id, :author, :note_type,
    :content, :folded, :created_at)
RETURNING notes.id;

-- name: adopt_history
-- why: A history row of an adopted board, with its own time.
-- takes: task_id text, agent text, action text, attempt integer, detail text, created_at instant
-- gives: id integer
INSERT INTO history (task_id, agent, action, attempt, detail, created_at) VALUES (:task_id, :agent, :action, :attempt,
    :detail, :created_at)
RETURNING history.id;

-- name: adopt_events
-- why: An event of an adopted board, with its own time.
-- takes: created_at instant, event_type text, payload json, ttl_seconds integer, project text, agent text, ref text,
--   folded text
-- gives: id integer
INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded) VALUES
    (:created_at, :event_type, :payload::JSON, :ttl_seconds, :project, :agent, :ref, '', :folded)
RETURNING events.id;

-- name: events_identity_raise
-- why: The next id of events is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('events', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('events', 'id') AS regclass)), 0), :least)) AS
    value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('events', 'id') AS regclass), 'UPDATE');

-- name: history_identity_raise
-- why: The next id of history is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('history', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('history', 'id') AS regclass)), 0), :least)) AS
    value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('history', 'id') AS regclass), 'UPDATE');

-- name: notes_identity_raise
-- why: The next id of notes is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('notes', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('notes', 'id') AS regclass)), 0), :least)) AS
    value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('notes', 'id') AS regclass), 'UPDATE');

-- name: tokens_identity_raise
-- why: The next id of tokens is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('tokens', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('tokens', 'id') AS regclass)), 0), :least)) AS
    value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('tokens', 'id') AS regclass), 'UPDATE');

-- name: worktrees_identity_raise
-- why: The next id of worktrees is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('worktrees', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('worktrees', 'id') AS regclass)), 0), :least))
    AS value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('worktrees', 'id') AS regclass), 'UPDATE');

-- name: leases_identity_raise
-- why: The next id of leases is above this one; no row for a role that may not say so.
-- takes: least integer
-- gives: value integer
SELECT setval(CAST(pg_get_serial_sequence('leases', 'id') AS regclass),
    greatest(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('leases', 'id') AS regclass)), 0), :least)) AS
    value
WHERE has_sequence_privilege(CAST(pg_get_serial_sequence('leases', 'id') AS regclass), 'UPDATE');

-- name: feed_lock
-- why: Nobody numbers events until this transaction ends; whoever would does not wait, but reads what is numbered.
-- takes: nothing
-- gives: locked boolean
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/events', 0)) IS NULL AS locked;

-- name: feed_last
-- why: The last position given out.
-- takes: nothing
-- gives: position integer
SELECT event_feed_state.position
FROM event_feed_state;

-- name: feed_raise
-- why: The next position is above this one.
-- takes: least integer
-- gives: position integer
UPDATE event_feed_state SET position=:least
WHERE event_feed_state.position < :least
RETURNING event_feed_state.position;

-- ===== fleet: agents, sessions, scopes, locks, worktrees, replay, tokens =====

-- name: agent_insert
-- why: A durable name; whoever comes first makes it.
-- takes: name text, kind text, role text
-- gives: name text
INSERT INTO agents (name, kind, role, created_at) VALUES (:name, :kind, :role, (SELECT date_trunc('milliseconds',
    clock_timestamp()))) ON CONFLICT (name) DO NOTHING
RETURNING agents.name;

-- name: agent_update
-- why: What an agent is; what is absent stays.
-- takes: kind text, role text, name text
-- gives: nothing
UPDATE agents SET kind=coalesce(:kind, agents.kind), role=coalesce(:role, agents.role)
WHERE agents.name = :name;

-- name: agent
-- why: One agent.
-- takes: name text
-- gives: name text, kind text, role text, created_at instant
SELECT agents.name, agents.kind, agents.role, agents.created_at
FROM agents
WHERE agents.name = :name;

-- name: session_insert
-- why: One run of an agent.
-- takes: id text, agent text, host text, pid integer, project text, stream text, doing text, ttl_seconds integer
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
INSERT INTO sessions (id, agent, host, pid, project, stream, doing, ttl_seconds, started_at, heartbeat_at, last_call_at)
    VALUES (:id, :agent, :host, :pid, :project, :stream, :doing, :ttl_seconds, (SELECT date_trunc('milliseconds',
    clock_timestamp())), (SELECT date_trunc('milliseconds', clock_timestamp())), (SELECT date_trunc('milliseconds',
    clock_timestamp())))
RETURNING sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason;

-- name: session
-- why: One session.
-- takes: id text
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.doing END AS doing, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.detail END AS detail, sessions.ttl_seconds,
    sessions.started_at, sessions.heartbeat_at, sessions.last_call_at, sessions.ended_at, sessions.end_reason
FROM sessions
WHERE sessions.id = :id;

-- name: session_lock
-- why: One session, locked: a sweep and a sign of life come one after the other.
-- takes: id text
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason
FROM sessions
WHERE sessions.id = :id FOR NO KEY UPDATE;

-- name: session_share
-- why: One session that something is granted to: it ends before this, or after it and with what was granted.
-- takes: id text
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason
FROM sessions
WHERE sessions.id = :id FOR SHARE;

-- name: sessions_list
-- why: Sessions, the latest sign of life first, with whether each is live; `after` (an id) pages on.
-- takes: agent text, project text, after text, limit integer
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text, live
--   boolean
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.doing END AS doing, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.detail END AS detail, sessions.ttl_seconds,
    sessions.started_at, sessions.heartbeat_at, sessions.last_call_at, sessions.ended_at, sessions.end_reason,
    sessions.ended_at IS NULL AND (sessions.heartbeat_at + make_interval(secs => CAST(sessions.ttl_seconds AS DOUBLE
    PRECISION))) >= (SELECT date_trunc('milliseconds', clock_timestamp())) AS live
FROM sessions
WHERE (CAST(:agent AS TEXT) IS NULL OR sessions.agent = :agent) AND (CAST(:project AS TEXT) IS NULL OR sessions.project
    = :project) AND (CAST(:after AS TEXT) IS NULL OR sessions.heartbeat_at < (SELECT seen.heartbeat_at
FROM sessions AS seen
WHERE seen.id = :after) OR sessions.heartbeat_at = (SELECT seen.heartbeat_at
FROM sessions AS seen
WHERE seen.id = :after) AND sessions.id > :after)
ORDER BY sessions.heartbeat_at DESC, sessions.id

LIMIT :limit;

-- name: sessions_open
-- why: The same of those that are not over.
-- takes: agent text, project text, after text, limit integer
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text, live
--   boolean
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.doing END AS doing, CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.detail END AS detail, sessions.ttl_seconds,
    sessions.started_at, sessions.heartbeat_at, sessions.last_call_at, sessions.ended_at, sessions.end_reason,
    sessions.ended_at IS NULL AND (sessions.heartbeat_at + make_interval(secs => CAST(sessions.ttl_seconds AS DOUBLE
    PRECISION))) >= (SELECT date_trunc('milliseconds', clock_timestamp())) AS live
FROM sessions
WHERE (CAST(:agent AS TEXT) IS NULL OR sessions.agent = :agent) AND (CAST(:project AS TEXT) IS NULL OR sessions.project
    = :project) AND (CAST(:after AS TEXT) IS NULL OR sessions.heartbeat_at < (SELECT seen.heartbeat_at
FROM sessions AS seen
WHERE seen.id = :after) OR sessions.heartbeat_at = (SELECT seen.heartbeat_at
FROM sessions AS seen
WHERE seen.id = :after) AND sessions.id > :after) AND sessions.ended_at IS NULL
ORDER BY sessions.heartbeat_at DESC, sessions.id

LIMIT :limit;

-- name: sessions_live_count
-- why: How many sessions have given a sign of life in their time.
-- takes: project text
-- gives: count integer
SELECT count(sessions.id) AS count
FROM sessions
WHERE sessions.ended_at IS NULL AND (sessions.heartbeat_at + make_interval(secs => CAST(sessions.ttl_seconds AS DOUBLE
    PRECISION))) >= (SELECT date_trunc('milliseconds', clock_timestamp())) AND (CAST(:project AS TEXT) IS NULL OR
    sessions.project = :project);

-- name: agents_list
-- why: Agents by name, with how many of their sessions are live.
-- takes: after text, limit integer
-- gives: name text, kind text, role text, created_at instant, live_sessions integer, last_seen instant
SELECT agents.name, agents.kind, agents.role, agents.created_at, (SELECT count(sessions.id) AS count_1
FROM sessions
WHERE sessions.agent = agents.name AND sessions.ended_at IS NULL AND sessions.heartbeat_at >= (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(-604800 AS DOUBLE PRECISION))) AND
    (sessions.heartbeat_at + make_interval(secs => CAST(sessions.ttl_seconds AS DOUBLE PRECISION))) >= (SELECT
    date_trunc('milliseconds', clock_timestamp()))) AS live_sessions, (SELECT max(sessions.heartbeat_at) AS max_1
FROM sessions
WHERE sessions.agent = agents.name) AS last_seen
FROM agents
WHERE CAST(:after AS TEXT) IS NULL OR agents.name > :after
ORDER BY agents.name

LIMIT :limit;

-- name: session_doing
-- why: What a session is at; what is absent stays.
-- takes: doing text, detail text, id text
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
UPDATE sessions SET doing=coalesce(:doing, sessions.doing), detail=coalesce(:detail, sessions.detail),
    last_call_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE sessions.id = :id
RETURNING sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason;

-- name: sessions_stale
-- why: A batch of sessions without a sign of life for longer than their time, locked; the longest silent first.
-- takes: limit integer
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
SELECT sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason
FROM sessions
WHERE sessions.ended_at IS NULL AND (sessions.heartbeat_at + make_interval(secs => CAST(sessions.ttl_seconds AS DOUBLE
    PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp()))
ORDER BY sessions.heartbeat_at, sessions.id

LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED;

-- name: session_end
-- why: The run is over; one that was swept, and so may come back, may be ended on purpose still.
-- takes: reason text, id text
-- gives: id text, agent text, host text, pid integer, project text, stream text, doing text, detail text, ttl_seconds
--   integer, started_at instant, heartbeat_at instant, last_call_at instant, ended_at instant, end_reason text
UPDATE sessions SET ended_at=(SELECT date_trunc('milliseconds', clock_timestamp())), end_reason=:reason
WHERE sessions.id = :id AND (sessions.ended_at IS NULL OR sessions.end_reason = 'stale' AND :reason = 'ended')
RETURNING sessions.id, sessions.agent, sessions.host, sessions.pid, sessions.project, sessions.stream, sessions.doing,
    sessions.detail, sessions.ttl_seconds, sessions.started_at, sessions.heartbeat_at, sessions.last_call_at,
    sessions.ended_at, sessions.end_reason;

-- name: session_due
-- why: Whether a call of this session must write a sign of life, renew something, or tell of a loss; mostly none.
-- takes: id text
-- gives: agent text, ended_at instant, end_reason text, beat boolean, renew boolean, lost boolean
SELECT sessions.agent, sessions.ended_at, sessions.end_reason, (sessions.heartbeat_at + make_interval(secs =>
    CAST(sessions.ttl_seconds / CAST(4 AS NUMERIC) AS DOUBLE PRECISION))) < (SELECT date_trunc('milliseconds',
    clock_timestamp())) OR (sessions.last_call_at + make_interval(secs => CAST(sessions.ttl_seconds / CAST(4 AS NUMERIC)
    AS DOUBLE PRECISION))) < (SELECT date_trunc('milliseconds', clock_timestamp())) AS beat, (EXISTS (SELECT leases.id
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :id AND leases.task_id IS NULL AND
    leases.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp())) AND leases.expires_at < (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(leases.ttl_seconds / CAST(2 AS NUMERIC)
    AS DOUBLE PRECISION))))) OR (EXISTS (SELECT leases.id
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :id AND leases.task_id IS NULL AND
    leases.expires_at <= (SELECT date_trunc('milliseconds', clock_timestamp())))) OR (EXISTS (SELECT tasks.number
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.session_id = :id AND tasks.lease_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND tasks.lease_until < (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(tasks.lease_seconds / CAST(2 AS NUMERIC) AS DOUBLE PRECISION))))) AS renew, (EXISTS
    (SELECT leases.id
FROM leases
WHERE leases.session_id = :id AND leases.release_reason IN ('expired', 'swept') AND leases.told_at IS NULL)) OR (EXISTS
    (SELECT attempts.attempt
FROM attempts
WHERE attempts.session_id = :id AND attempts.outcome = 'expired' AND attempts.told_at IS NULL)) AS lost
FROM sessions
WHERE sessions.id = :id;

-- name: session_beat
-- why: A sign of life; one that was swept as stale is back, one that was ended on purpose is not.
-- takes: id text
-- gives: nothing
UPDATE sessions SET doing=CASE WHEN ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) <
    (SELECT date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.doing END, detail=CASE WHEN
    ((sessions.last_call_at + make_interval(secs => CAST(1800 AS DOUBLE PRECISION))) < (SELECT
    date_trunc('milliseconds', clock_timestamp()))) THEN '' ELSE sessions.detail END, heartbeat_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), last_call_at=(SELECT date_trunc('milliseconds', clock_timestamp())),
    ended_at=NULL, end_reason=''
WHERE sessions.id = :id AND sessions.end_reason != 'ended';

-- name: session_heartbeat
-- why: The same of whoever does nothing else: it is no call.
-- takes: id text
-- gives: nothing
UPDATE sessions SET heartbeat_at=(SELECT date_trunc('milliseconds', clock_timestamp())), ended_at=NULL, end_reason=''
WHERE sessions.id = :id AND sessions.end_reason != 'ended';

-- name: session_renew_leases
-- why: Renew the live scope leases of a session whose time is half over, each for its own length; never a lock.
-- takes: id text
-- gives: nothing
WITH half_done AS
(SELECT leases.id AS id
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :id AND leases.task_id IS NULL AND
    leases.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp())) AND leases.expires_at < (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(leases.ttl_seconds / CAST(2 AS NUMERIC)
    AS DOUBLE PRECISION)))
ORDER BY leases.id FOR UPDATE SKIP LOCKED)
UPDATE leases SET expires_at=(SELECT date_trunc('milliseconds', clock_timestamp()) + make_interval(secs =>
    CAST(leases.ttl_seconds AS DOUBLE PRECISION)))
WHERE leases.id IN (SELECT half_done.id
FROM half_done) AND leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :id AND leases.task_id
    IS NULL AND leases.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp())) AND leases.expires_at <
    (SELECT date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(leases.ttl_seconds / CAST(2 AS
    NUMERIC) AS DOUBLE PRECISION)));

-- name: session_past_leases
-- why: Scope leases of a session whose time is over and that no task keeps: it lost them, though nobody took them yet.
-- takes: id text, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.kind = 'scope' AND leases.released_at IS NULL AND leases.session_id = :id AND leases.task_id IS NULL AND
    leases.expires_at <= (SELECT date_trunc('milliseconds', clock_timestamp()))
ORDER BY leases.id

LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: session_renew_tasks
-- why: Renew the live claims of a session whose time is half over.
-- takes: id text
-- gives: id text, lease_until instant, scoped boolean
WITH renewing AS
(SELECT tasks.id AS id
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND tasks.session_id = :id AND tasks.lease_until > (SELECT date_trunc('milliseconds',
    clock_timestamp())) AND tasks.lease_until < (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(tasks.lease_seconds / CAST(2 AS NUMERIC) AS DOUBLE PRECISION)))
ORDER BY tasks.number FOR UPDATE SKIP LOCKED)
UPDATE tasks SET lease_until=(SELECT date_trunc('milliseconds', clock_timestamp()) + make_interval(secs =>
    CAST(tasks.lease_seconds AS DOUBLE PRECISION)))
WHERE tasks.id IN (SELECT renewing.id
FROM renewing) AND tasks.status = 'IN_PROGRESS' AND tasks.session_id = :id AND tasks.lease_until > (SELECT
    date_trunc('milliseconds', clock_timestamp())) AND tasks.lease_until < (SELECT date_trunc('milliseconds',
    clock_timestamp()) + make_interval(secs => CAST(tasks.lease_seconds / CAST(2 AS NUMERIC) AS DOUBLE PRECISION)))
RETURNING tasks.id, tasks.lease_until, tasks.scoped;

-- name: session_lost_leases
-- why: Leases that a session lost and was not told of; told with this.
-- takes: id text, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
UPDATE leases SET told_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE leases.id IN (SELECT leases.id
FROM leases
WHERE leases.session_id = :id AND leases.release_reason IN ('expired', 'swept') AND leases.told_at IS NULL
ORDER BY leases.id

LIMIT :limit) AND leases.told_at IS NULL
RETURNING leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at;

-- name: session_lost_claims
-- why: Claims that a session lost and was not told of; told with this.
-- takes: id text
-- gives: task_id text, attempt integer
UPDATE attempts SET told_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE attempts.session_id = :id AND attempts.outcome = 'expired' AND attempts.told_at IS NULL
RETURNING attempts.task_id, attempts.attempt;

-- name: session_losses_leases
-- why: Leases that a session lost, told or not, the latest first.
-- takes: id text, limit integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.session_id = :id AND leases.release_reason IN ('expired', 'swept') AND leases.released_at IS NOT NULL
ORDER BY leases.id DESC

LIMIT :limit;

-- name: session_losses_claims
-- why: Claims that a session lost, told or not, the latest first.
-- takes: id text, limit integer
-- gives: task_id text, attempt integer
SELECT attempts.task_id, attempts.attempt
FROM attempts
WHERE attempts.session_id = :id AND attempts.outcome = 'expired'
ORDER BY attempts.ended_at DESC, attempts.task_id, attempts.attempt

LIMIT :limit;

-- name: lock_lost
-- why: The last grant of a lock to a session, when it ended without its doing.
-- takes: project text, resource text, session text
-- gives: fence integer
SELECT leases.fence
FROM leases
WHERE leases.id IN (SELECT leases.id
FROM leases
WHERE leases.kind = 'lock' AND leases.project = :project AND leases.resource = :resource AND leases.session_id =
    :session AND leases.released_at IS NOT NULL
ORDER BY leases.id DESC

LIMIT 1) AND leases.release_reason IN ('expired', 'swept');

-- name: worktree_insert
-- why: A working copy in which a task's changes live; one live for each task, by constraint.
-- takes: task_id text, agent text, session text, project text, branch text, root text, base text
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
INSERT INTO worktrees (task_id, agent, session_id, project, branch, root, base, state, created_at, updated_at) VALUES
    (:task_id, :agent, :session, :project, :branch, :root, :base, 'open', (SELECT date_trunc('milliseconds',
    clock_timestamp())), (SELECT date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT DO NOTHING
RETURNING worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason;

-- name: worktree_of_task
-- why: The open worktree of a task, locked for the verb that follows.
-- takes: task_id text
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
SELECT worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason
FROM worktrees
WHERE worktrees.task_id = :task_id AND worktrees.closed_at IS NULL FOR UPDATE;

-- name: worktree_seen
-- why: The open worktree of a task, for whoever only looks.
-- takes: task_id text
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
SELECT worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason
FROM worktrees
WHERE worktrees.task_id = :task_id AND worktrees.closed_at IS NULL;

-- name: worktree_state
-- why: Where its changes stand.
-- takes: state text, id integer
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
UPDATE worktrees SET state=:state, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE worktrees.id = :id AND worktrees.closed_at IS NULL
RETURNING worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason;

-- name: worktree_close
-- why: Merged or aborted: it is over.
-- takes: state text, reason text, id integer
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
UPDATE worktrees SET state=:state, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), closed_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), close_reason=:reason
WHERE worktrees.id = :id AND worktrees.closed_at IS NULL
RETURNING worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason;

-- name: worktree_adopt
-- why: Another agent goes on in it.
-- takes: agent text, session text, id integer
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
UPDATE worktrees SET agent=:agent, session_id=:session, updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE worktrees.id = :id AND worktrees.closed_at IS NULL
RETURNING worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason;

-- name: worktrees_list
-- why: Worktrees, the newest first; `before` (an id) pages back.
-- takes: project text, all integer, before integer, limit integer
-- gives: id integer, task_id text, agent text, session_id text, project text, branch text, root text, base text, state
--   text, created_at instant, updated_at instant, closed_at instant, close_reason text
SELECT worktrees.id, worktrees.task_id, worktrees.agent, worktrees.session_id, worktrees.project, worktrees.branch,
    worktrees.root, worktrees.base, worktrees.state, worktrees.created_at, worktrees.updated_at, worktrees.closed_at,
    worktrees.close_reason
FROM worktrees
WHERE (CAST(:project AS TEXT) IS NULL OR worktrees.project = :project) AND (CAST(:all AS BIGINT) = 1 OR
    worktrees.closed_at IS NULL) AND (CAST(:before AS BIGINT) IS NULL OR worktrees.id < :before)
ORDER BY worktrees.id DESC

LIMIT :limit;

-- name: applied_insert
-- why: An event that a stream has applied; a second time changes nothing.
-- takes: stream text, event_key text
-- gives: event_key text
INSERT INTO applied_events (stream, event_key, applied_at) VALUES (:stream, :event_key, (SELECT
    date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT (stream, event_key) DO NOTHING
RETURNING applied_events.event_key;

-- name: applied_list
-- why: What a stream has applied, by key; `after` pages on.
-- takes: stream text, after text, limit integer
-- gives: event_key text, applied_at instant
SELECT applied_events.event_key, applied_events.applied_at
FROM applied_events
WHERE applied_events.stream = :stream AND (CAST(:after AS TEXT) IS NULL OR applied_events.event_key > :after)
ORDER BY applied_events.event_key

LIMIT :limit;

-- name: token_insert
-- why: A token, of which only the hash is kept.
-- takes: hash text, agent text, role text, label text, created_by text, ttl_seconds integer
-- gives: id integer
INSERT INTO tokens (hash, agent, role, label, created_by, created_at, expires_at) VALUES (:hash, :agent, :role, :label,
    :created_by, (SELECT date_trunc('milliseconds', clock_timestamp())), ((SELECT date_trunc('milliseconds',
    clock_timestamp())) + make_interval(secs => CAST(:ttl_seconds AS DOUBLE PRECISION))))
RETURNING tokens.id;

-- name: token_of_hash
-- why: A token that lets in now, and whether its use is due to be noted.
-- takes: hash text
-- gives: id integer, agent text, role text, label text, created_by text, created_at instant, expires_at instant,
--   last_used_at instant, revoked_at instant, kind text, due boolean
SELECT tokens.id, tokens.agent, tokens.role, tokens.label, tokens.created_by, tokens.created_at, tokens.expires_at,
    tokens.last_used_at, tokens.revoked_at, (SELECT agents.kind
FROM agents
WHERE agents.name = tokens.agent) AS kind, tokens.last_used_at IS NULL OR (tokens.last_used_at + make_interval(secs =>
    CAST(60 AS DOUBLE PRECISION))) <= (SELECT date_trunc('milliseconds', clock_timestamp())) AS due
FROM tokens
WHERE tokens.hash = :hash AND tokens.revoked_at IS NULL AND (tokens.expires_at IS NULL OR tokens.expires_at > (SELECT
    date_trunc('milliseconds', clock_timestamp())));

-- name: token_used
-- why: A token was used.
-- takes: id integer
-- gives: nothing
UPDATE tokens SET last_used_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tokens.id = :id;

-- name: token_revoke
-- why: End a token; one that is over stays as it is.
-- takes: id integer
-- gives: id integer, agent text, role text, label text, created_by text, created_at instant, expires_at instant,
--   last_used_at instant, revoked_at instant, kind text
UPDATE tokens SET revoked_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tokens.id = :id AND tokens.revoked_at IS NULL
RETURNING tokens.id, tokens.agent, tokens.role, tokens.label, tokens.created_by, tokens.created_at, tokens.expires_at,
    tokens.last_used_at, tokens.revoked_at, (SELECT agents.kind
FROM agents
WHERE agents.name = tokens.agent) AS kind;

-- name: token
-- why: One token.
-- takes: id integer
-- gives: id integer, agent text, role text, label text, created_by text, created_at instant, expires_at instant,
--   last_used_at instant, revoked_at instant, kind text
SELECT tokens.id, tokens.agent, tokens.role, tokens.label, tokens.created_by, tokens.created_at, tokens.expires_at,
    tokens.last_used_at, tokens.revoked_at, (SELECT agents.kind
FROM agents
WHERE agents.name = tokens.agent) AS kind
FROM tokens
WHERE tokens.id = :id;

-- name: tokens_list
-- why: Tokens, the newest first; `before` pages on.
-- takes: before integer, limit integer
-- gives: id integer, agent text, role text, label text, created_by text, created_at instant, expires_at instant,
--   last_used_at instant, revoked_at instant, kind text
SELECT tokens.id, tokens.agent, tokens.role, tokens.label, tokens.created_by, tokens.created_at, tokens.expires_at,
    tokens.last_used_at, tokens.revoked_at, (SELECT agents.kind
FROM agents
WHERE agents.name = tokens.agent) AS kind
FROM tokens
WHERE CAST(:before AS BIGINT) IS NULL OR tokens.id < :before
ORDER BY tokens.id DESC

LIMIT :limit;

-- name: tokens_live
-- why: Whether any token lets somebody in.
-- takes: nothing
-- gives: count integer
SELECT count(tokens.id) AS count
FROM tokens
WHERE tokens.revoked_at IS NULL AND (tokens.expires_at IS NULL OR tokens.expires_at > (SELECT date_trunc('milliseconds',
    clock_timestamp())));

-- ===== inbox: asks, responses, deliveries, annotations =====

-- name: ask
-- why: One ask with its current response.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.id = :ask_id;

-- name: ask_for
-- why: The same, with whether a reader was handed that response, and whether no other acts on it.
-- takes: readers list, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant, handed boolean, free boolean
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at, EXISTS (SELECT ask_deliveries.seq
FROM ask_deliveries
WHERE ask_deliveries.ask_id = asks.id AND ask_deliveries.seq = asks.response_seq AND ask_deliveries.reader = ANY
    (CAST(:readers AS TEXT[]))) AS handed, asks.taken_until IS NULL OR asks.taken_until <= (SELECT
    date_trunc('milliseconds', clock_timestamp())) OR coalesce(asks.taken_session_id, asks.taken_by) = ANY
    (CAST(:readers AS TEXT[])) AS free
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.id = :ask_id;

-- name: ask_lock
-- why: One ask, locked for the verb that follows.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at
FROM asks
WHERE asks.id = :ask_id FOR UPDATE;

-- name: ask_lock_free
-- why: The same of one that nobody else has locked.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at
FROM asks
WHERE asks.id = :ask_id FOR UPDATE SKIP LOCKED;

-- name: asks_lock
-- why: Several asks behind a number, locked in the order in which all do so who lock more than one.
-- takes: ids list, after integer
-- gives: id text, number integer
SELECT asks.id, asks.number
FROM asks
WHERE asks.id = ANY (CAST(:ids AS TEXT[])) AND asks.number > :after
ORDER BY asks.number FOR UPDATE;

-- name: ask_at
-- why: The live ask in a place.
-- takes: surface text, surface_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.surface = :surface AND asks.surface_id = :surface_id AND asks.closed_at IS NULL;

-- name: ask_at_lock
-- why: The same, locked.
-- takes: surface text, surface_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at
FROM asks
WHERE asks.surface = :surface AND asks.surface_id = :surface_id AND asks.closed_at IS NULL FOR UPDATE;

-- name: asks_at
-- why: The live asks of several places of one kind.
-- takes: surface text, surface_ids list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.surface = :surface AND asks.surface_id = ANY (CAST(:surface_ids AS TEXT[])) AND asks.closed_at IS NULL;

-- name: ask_steps
-- why: The asks that a place has had, before a step if one is named, the latest first.
-- takes: surface text, surface_id text, before integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.surface = :surface AND asks.surface_id = :surface_id AND (CAST(:before AS BIGINT) IS NULL OR asks.step_no <
    :before)
ORDER BY asks.step_no DESC, asks.number DESC

LIMIT :limit;

-- name: ask_twin
-- why: The live ask that a retry means.
-- takes: project text, dedup_key text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.project = :project AND asks.dedup_key = :dedup_key AND asks.closed_at IS NULL;

-- name: ask_insert
-- why: A new ask, unless one lives in its place or under its key: the two partial unique indexes decide.
-- takes: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session text, timeout_seconds integer, folded text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
INSERT INTO asks (id, number, project, stream, kind, action_owner, surface, surface_id, step_no, dedup_key, blocking,
    title, detail, next_step, impact, next_after, options, context, asked_by, session_id, expires_at, folded,
    created_at, updated_at) VALUES (:id, :number, :project, :stream, :kind, :action_owner, :surface, :surface_id,
    coalesce(CAST(:step_no AS BIGINT), (SELECT coalesce(max(asks.step_no), 0) + 1 AS step_no
FROM asks
WHERE asks.surface = :surface AND asks.surface_id = :surface_id)), :dedup_key, :blocking, :title, :detail, :next_step,
    :impact, :next_after, :options::JSON, :context, :asked_by, :session, CASE WHEN (CAST(:timeout_seconds AS BIGINT) IS
    NOT NULL) THEN (SELECT date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(:timeout_seconds
    AS DOUBLE PRECISION))) ELSE NULL END, :folded, (SELECT date_trunc('milliseconds', clock_timestamp())), (SELECT
    date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT DO NOTHING
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_revise
-- why: Other words for a locked ask, or another time, where no other acts on its response.
-- takes: title text, detail text, next_step text, impact text, next_after text, options json, context text, reworded
--   integer, timeout_seconds integer, folded text, ask_id text, readers list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET title=:title, detail=:detail, next_step=:next_step, impact=:impact, next_after=:next_after,
    options=:options::JSON, context=:context, revision=(asks.revision + :reworded), expires_at=CASE WHEN
    (CAST(:timeout_seconds AS BIGINT) IS NOT NULL) THEN (SELECT date_trunc('milliseconds', clock_timestamp()) +
    make_interval(secs => CAST(:timeout_seconds AS DOUBLE PRECISION))) ELSE asks.expires_at END, folded=:folded,
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND (asks.handled_at IS NULL OR asks.taken_until IS NULL OR
    asks.taken_until <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR coalesce(asks.taken_session_id,
    asks.taken_by) = ANY (CAST(:readers AS TEXT[])))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_again
-- why: A clarification that was handed over is answered by other words: the human's turn again, who spoke in time.
-- takes: timeout_seconds integer, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='open', expires_at=CASE WHEN (CAST(:timeout_seconds AS BIGINT) IS NOT NULL) THEN (SELECT
    date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => CAST(:timeout_seconds AS DOUBLE PRECISION)))
    ELSE NULL END, handled_at=NULL, seen_at=NULL, seen_by=NULL, taken_by=NULL, taken_session_id=NULL, taken_until=NULL
WHERE asks.id = :ask_id AND asks.state = 'answered' AND asks.delivered_seq = asks.response_seq
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_move
-- why: A live ask goes to its task's project; it lets go of a key that lives there already.
-- takes: project text, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET project=:project, dedup_key=CASE WHEN (EXISTS (SELECT other.id
FROM asks AS other
WHERE other.project = :project AND other.dedup_key = asks.dedup_key AND other.closed_at IS NULL)) THEN NULL ELSE
    asks.dedup_key END, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.project != :project
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_block
-- why: What was asked beside the work is now what the task waits for, or the other way round.
-- takes: blocking boolean, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET blocking=:blocking
WHERE asks.id = :ask_id AND asks.closed_at IS NULL
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_snooze
-- why: Out of the human's sight until then; NULL wakes it.
-- takes: until instant, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET snoozed_until=:until
WHERE asks.id = :ask_id AND asks.state = 'open'
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_close
-- why: Close an ask unless a response waits that the caller was not handed or does not name, or that another acts on.
-- takes: outcome text, agent text, reason text, ask_id text, readers list, response_seq integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='closed', snoozed_until=NULL, outcome=:outcome, outcome_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), closed_by=:agent,
    close_reason=:reason
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND (asks.handled_at IS NULL OR (EXISTS (SELECT ask_deliveries.seq
FROM ask_deliveries
WHERE ask_deliveries.ask_id = asks.id AND ask_deliveries.seq = asks.response_seq AND ask_deliveries.reader = ANY
    (CAST(:readers AS TEXT[])))) AND (asks.taken_until IS NULL OR asks.taken_until <= (SELECT date_trunc('milliseconds',
    clock_timestamp())) OR coalesce(asks.taken_session_id, asks.taken_by) = ANY (CAST(:readers AS TEXT[]))) AND
    (CAST(:response_seq AS BIGINT) IS NULL OR asks.response_seq = :response_seq))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_acknowledge
-- why: The agent side has finished with exactly this response, which it was handed; a clarification is no end.
-- takes: outcome text, agent text, reason text, ask_id text, response_seq integer, readers list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='closed', snoozed_until=NULL, outcome=:outcome, outcome_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), closed_by=:agent,
    close_reason=:reason
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.handled_at IS NOT NULL AND asks.outcome = '' AND
    asks.response_seq = :response_seq AND (EXISTS (SELECT ask_deliveries.seq
FROM ask_deliveries
WHERE ask_deliveries.ask_id = asks.id AND ask_deliveries.seq = asks.response_seq AND ask_deliveries.reader = ANY
    (CAST(:readers AS TEXT[])))) AND (SELECT ask_responses.kind
FROM ask_responses
WHERE ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq) != 'clarify' AND (asks.taken_until IS
    NULL OR asks.taken_until <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR
    coalesce(asks.taken_session_id, asks.taken_by) = ANY (CAST(:readers AS TEXT[])))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_dismiss
-- why: The human will not answer; only while nothing was answered.
-- takes: outcome text, agent text, reason text, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='closed', snoozed_until=NULL, outcome=:outcome, outcome_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), closed_by=:agent,
    close_reason=:reason
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.state = 'open'
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_expire
-- why: Nobody answered in time; the guard repeated.
-- takes: outcome text, agent text, reason text, ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='closed', snoozed_until=NULL, outcome=:outcome, outcome_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), closed_by=:agent,
    close_reason=:reason
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.state = 'open' AND asks.expires_at <= (SELECT
    date_trunc('milliseconds', clock_timestamp()))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: asks_due
-- why: Asks whose time is over without an answer, the longest first.
-- takes: limit integer
-- gives: id text, surface text, surface_id text
SELECT asks.id, asks.surface, asks.surface_id
FROM asks
WHERE asks.state = 'open' AND asks.expires_at IS NOT NULL AND asks.expires_at <= (SELECT date_trunc('milliseconds',
    clock_timestamp()))
ORDER BY asks.expires_at, asks.number

LIMIT :limit;

-- name: ask_respond
-- why: The human's word replaces whatever was there and is unseen, as long as the ask lives and its time lasts.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='answered', snoozed_until=NULL, response_seq=(asks.response_seq + 1), handled_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), seen_at=NULL, seen_by=NULL
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.kind = 'question' AND (asks.handled_at IS NOT NULL OR
    asks.expires_at IS NULL OR asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp())))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_answer
-- why: What the human said in chat, unless a response waits that the recording session was not handed.
-- takes: agent text, ask_id text, readers list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='answered', snoozed_until=NULL, response_seq=(asks.response_seq + 1), handled_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), delivered_seq=(asks.response_seq + 1), seen_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), seen_by=:agent
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.kind = 'question' AND (asks.handled_at IS NOT NULL OR
    asks.expires_at IS NULL OR asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND
    (asks.handled_at IS NULL OR (EXISTS (SELECT ask_deliveries.seq
FROM ask_deliveries
WHERE ask_deliveries.ask_id = asks.id AND ask_deliveries.seq = asks.response_seq AND ask_deliveries.reader = ANY
    (CAST(:readers AS TEXT[])))))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_take_back
-- why: The human takes a response back, as long as nobody was handed it; a time that is over meanwhile ends nothing.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET state='open', expires_at=CASE WHEN (asks.expires_at > (SELECT date_trunc('milliseconds',
    clock_timestamp()))) THEN asks.expires_at ELSE NULL END, response_seq=(asks.response_seq + 1), handled_at=NULL,
    seen_at=NULL, seen_by=NULL, updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE asks.id = :ask_id AND asks.closed_at IS NULL AND asks.handled_at IS NOT NULL AND asks.delivered_seq <
    asks.response_seq
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_nothing_said
-- why: There was nothing to take back; that the human meant to is kept.
-- takes: ask_id text
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET response_seq=(asks.response_seq + 1)
WHERE asks.id = :ask_id AND asks.state = 'open'
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_acted_on
-- why: The board itself was handed the current response and acted on it; which agent is handed it first stays open.
-- takes: ask_id text
-- gives: nothing
UPDATE asks SET delivered_seq=asks.response_seq
WHERE asks.id = :ask_id;

-- name: response_insert
-- why: What was said or done, for good.
-- takes: ask_id text, seq integer, kind text, channel text, text text, choice text, context text, ask_revision integer,
--   said_by text, session text, client_id text, client_seq integer, action_id text, folded text
-- gives: nothing
INSERT INTO ask_responses (ask_id, seq, kind, channel, text, choice, context, ask_revision, said_by, session_id,
    client_id, client_seq, action_id, folded, created_at) VALUES (:ask_id, :seq, :kind, :channel, :text, :choice,
    :context, :ask_revision, :said_by, :session, :client_id, :client_seq, :action_id, :folded, (SELECT
    date_trunc('milliseconds', clock_timestamp())));

-- name: response_of_action
-- why: What a client's action did when it first came.
-- takes: ask_id text, client_id text, action_id text
-- gives: ask_id text, seq integer, kind text, channel text, text text, choice text, context text, ask_revision integer,
--   said_by text, session_id text, client_id text, client_seq integer, action_id text, created_at instant
SELECT ask_responses.ask_id, ask_responses.seq, ask_responses.kind, ask_responses.channel, ask_responses.text,
    ask_responses.choice, ask_responses.context, ask_responses.ask_revision, ask_responses.said_by,
    ask_responses.session_id, ask_responses.client_id, ask_responses.client_seq, ask_responses.action_id,
    ask_responses.created_at
FROM ask_responses
WHERE ask_responses.ask_id = :ask_id AND ask_responses.client_id = :client_id AND ask_responses.action_id = :action_id;

-- name: response_last_of_client
-- why: How far a client has come with an ask.
-- takes: ask_id text, client_id text
-- gives: client_seq integer
SELECT max(ask_responses.client_seq) AS client_seq
FROM ask_responses
WHERE ask_responses.ask_id = :ask_id AND ask_responses.client_id = :client_id;

-- name: responses_of
-- why: What was said to an ask, the latest last.
-- takes: ask_id text, after integer, limit integer
-- gives: ask_id text, seq integer, kind text, channel text, text text, choice text, context text, ask_revision integer,
--   said_by text, session_id text, client_id text, client_seq integer, action_id text, created_at instant
SELECT ask_responses.ask_id, ask_responses.seq, ask_responses.kind, ask_responses.channel, ask_responses.text,
    ask_responses.choice, ask_responses.context, ask_responses.ask_revision, ask_responses.said_by,
    ask_responses.session_id, ask_responses.client_id, ask_responses.client_seq, ask_responses.action_id,
    ask_responses.created_at
FROM ask_responses
WHERE ask_responses.ask_id = :ask_id AND ask_responses.seq > :after
ORDER BY ask_responses.seq

LIMIT :limit;

-- name: pending_lock
-- why: A batch of answered asks that nobody has finished with, locked: what is read next is what stays.
-- takes: project text, after integer, limit integer
-- gives: id text, number integer
SELECT asks.id, asks.number
FROM asks
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND (CAST(:project AS TEXT) IS NULL OR asks.project = :project)
    AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit FOR UPDATE;

-- name: pending
-- why: Those asks with their current response, and which revision of their own context the reader already has.
-- takes: reader text, ids list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant, context_handed integer
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at, (SELECT coalesce(max(ask_deliveries.context_revision), 0) AS
    coalesce_1
FROM ask_deliveries
WHERE ask_deliveries.ask_id = asks.id AND ask_deliveries.reader = :reader) AS context_handed
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.id = ANY (CAST(:ids AS TEXT[])) AND asks.handled_at IS NOT NULL AND asks.outcome = ''
ORDER BY asks.number;

-- name: asks_seen
-- why: Somebody was handed these responses; who was first stays.
-- takes: agent text, ids list
-- gives: id text, delivered_seq integer, seen_at instant, seen_by text
UPDATE asks SET delivered_seq=asks.response_seq, seen_at=(SELECT date_trunc('milliseconds', clock_timestamp())),
    seen_by=:agent
WHERE asks.id = ANY (CAST(:ids AS TEXT[])) AND asks.handled_at IS NOT NULL AND asks.seen_at IS NULL
RETURNING asks.id, asks.delivered_seq, asks.seen_at, asks.seen_by;

-- name: delivery_record
-- why: A response was handed to a session; the first time stays.
-- takes: ask_id text, seq integer, reader text, agent text, context_revision integer
-- gives: nothing
INSERT INTO ask_deliveries (ask_id, seq, reader, agent, context_revision, first_at, last_at) VALUES (:ask_id, :seq,
    :reader, :agent, :context_revision, (SELECT date_trunc('milliseconds', clock_timestamp())), (SELECT
    date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT (ask_id, seq, reader) DO UPDATE SET context_revision =
    greatest(ask_deliveries.context_revision, :context_revision), times = (ask_deliveries.times + 1), last_at = (SELECT
    date_trunc('milliseconds', clock_timestamp()));

-- name: deliveries_of
-- why: Who was handed what of an ask, the latest response first.
-- takes: ask_id text, limit integer
-- gives: ask_id text, seq integer, reader text, agent text, context_revision integer, times integer, first_at instant,
--   last_at instant
SELECT ask_deliveries.ask_id, ask_deliveries.seq, ask_deliveries.reader, ask_deliveries.agent,
    ask_deliveries.context_revision, ask_deliveries.times, ask_deliveries.first_at, ask_deliveries.last_at
FROM ask_deliveries
WHERE ask_deliveries.ask_id = :ask_id
ORDER BY ask_deliveries.seq DESC, ask_deliveries.first_at, ask_deliveries.reader

LIMIT :limit;

-- name: ask_take
-- why: Act on a response, alone for a while.
-- takes: agent text, session text, seconds integer, ask_id text, readers list
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant
UPDATE asks SET taken_by=:agent, taken_session_id=:session, taken_until=(SELECT date_trunc('milliseconds',
    clock_timestamp()) + make_interval(secs => CAST(:seconds AS DOUBLE PRECISION)))
WHERE asks.id = :ask_id AND asks.handled_at IS NOT NULL AND asks.outcome = '' AND (asks.taken_until IS NULL OR
    asks.taken_until <= (SELECT date_trunc('milliseconds', clock_timestamp())) OR coalesce(asks.taken_session_id,
    asks.taken_by) = ANY (CAST(:readers AS TEXT[])))
RETURNING asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at;

-- name: ask_let_go
-- why: Whoever claims the task that it brings acts on it from now on: nothing of an own take, or of one that is past.
-- takes: ask_id text, reader text
-- gives: nothing
UPDATE asks SET taken_by=NULL, taken_session_id=NULL, taken_until=NULL
WHERE asks.id = :ask_id AND asks.taken_until IS NOT NULL AND (asks.handled_at IS NULL OR asks.taken_until <= (SELECT
    date_trunc('milliseconds', clock_timestamp())) OR coalesce(asks.taken_session_id, asks.taken_by) = :reader);

-- name: asks_let_go
-- why: Sessions that are over act on nothing any more.
-- takes: sessions list
-- gives: nothing
WITH taken_by_them AS
(SELECT asks.id AS id
FROM asks
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND asks.taken_session_id = ANY (CAST(:sessions AS TEXT[]))
ORDER BY asks.number + 0 FOR UPDATE)
UPDATE asks SET taken_by=NULL, taken_session_id=NULL, taken_until=NULL
WHERE asks.id IN (SELECT taken_by_them.id
FROM taken_by_them);

-- name: annotation_insert
-- why: What a human says beside an ask or a row.
-- takes: id text, number integer, project text, ask_id text, row_id text, step_no integer, author text, text text
-- gives: nothing
INSERT INTO annotations (id, number, project, ask_id, row_id, step_no, author, text, created_at) VALUES (:id, :number,
    :project, :ask_id, :row_id, :step_no, :author, :text, (SELECT date_trunc('milliseconds', clock_timestamp())));

-- name: annotation_twin
-- why: The same words of the same speaker in the same place, which nobody was handed yet.
-- takes: ask_id text, row_id text, author text, text text
-- gives: id text
SELECT annotations.id
FROM annotations
WHERE (annotations.ask_id = :ask_id OR annotations.row_id = :row_id) AND annotations.author = :author AND
    annotations.text = :text AND annotations.seen_at IS NULL AND annotations.closed_at IS NULL
ORDER BY annotations.number

LIMIT 1;

-- name: annotation
-- why: One annotation.
-- takes: id text
-- gives: id text, number integer, project text, ask_id text, row_id text, step_no integer, author text, text text,
--   seen_at instant, seen_by text, closed_at instant, close_reason text, created_at instant, about text
SELECT annotations.id, annotations.number, annotations.project, annotations.ask_id, annotations.row_id,
    annotations.step_no, annotations.author, annotations.text, annotations.seen_at, annotations.seen_by,
    annotations.closed_at, annotations.close_reason, annotations.created_at, coalesce(asks.title, board_rows.label) AS
    about
FROM annotations LEFT OUTER JOIN asks ON asks.id = annotations.ask_id LEFT OUTER JOIN board_rows ON board_rows.id =
    annotations.row_id
WHERE annotations.id = :id;

-- name: annotations_of
-- why: What was said beside an ask, the latest first.
-- takes: ask_id text, limit integer
-- gives: id text, number integer, project text, ask_id text, row_id text, step_no integer, author text, text text,
--   seen_at instant, seen_by text, closed_at instant, close_reason text, created_at instant, about text
SELECT annotations.id, annotations.number, annotations.project, annotations.ask_id, annotations.row_id,
    annotations.step_no, annotations.author, annotations.text, annotations.seen_at, annotations.seen_by,
    annotations.closed_at, annotations.close_reason, annotations.created_at, coalesce(asks.title, board_rows.label) AS
    about
FROM annotations LEFT OUTER JOIN asks ON asks.id = annotations.ask_id LEFT OUTER JOIN board_rows ON board_rows.id =
    annotations.row_id
WHERE annotations.ask_id = :ask_id AND annotations.close_reason != 'withdrawn'
ORDER BY annotations.number DESC

LIMIT :limit;

-- name: annotations_move
-- why: What was said beside an ask, and nobody has finished with, goes along with it.
-- takes: project text, ask_id text
-- gives: nothing
UPDATE annotations SET project=:project
WHERE annotations.ask_id = :ask_id AND annotations.closed_at IS NULL;

-- name: annotation_take_back
-- why: The human takes words back, as long as nobody was handed them.
-- takes: id text
-- gives: id text, project text
UPDATE annotations SET closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), close_reason='withdrawn'
WHERE annotations.id = :id AND annotations.closed_at IS NULL AND annotations.seen_at IS NULL
RETURNING annotations.id, annotations.project;

-- name: annotation_acknowledge
-- why: An agent has taken note, after somebody was handed it.
-- takes: id text
-- gives: id text, project text
UPDATE annotations SET closed_at=(SELECT date_trunc('milliseconds', clock_timestamp())), close_reason='acknowledged'
WHERE annotations.id = :id AND annotations.closed_at IS NULL AND annotations.seen_at IS NOT NULL
RETURNING annotations.id, annotations.project;

-- name: annotations_lock
-- why: A batch of words that a session was not handed, or all in full, locked: nobody takes them back in between.
-- takes: reader text, full boolean, project text, after integer, limit integer
-- gives: id text, number integer
SELECT annotations.id, annotations.number
FROM annotations
WHERE annotations.closed_at IS NULL AND (NOT (EXISTS (SELECT annotation_deliveries.reader
FROM annotation_deliveries
WHERE annotation_deliveries.annotation_id = annotations.id AND annotation_deliveries.reader = :reader)) OR :full) AND
    (CAST(:project AS TEXT) IS NULL OR annotations.project = :project) AND annotations.number + 0 > :after
ORDER BY annotations.number + 0

LIMIT :limit FOR UPDATE;

-- name: annotations_pending
-- why: Those words as they stand now, without what the same session was handed while this waited for the lock.
-- takes: ids list, reader text, full boolean
-- gives: id text, number integer, project text, ask_id text, row_id text, step_no integer, author text, text text,
--   seen_at instant, seen_by text, closed_at instant, close_reason text, created_at instant, about text
SELECT annotations.id, annotations.number, annotations.project, annotations.ask_id, annotations.row_id,
    annotations.step_no, annotations.author, annotations.text, annotations.seen_at, annotations.seen_by,
    annotations.closed_at, annotations.close_reason, annotations.created_at, coalesce(asks.title, board_rows.label) AS
    about
FROM annotations LEFT OUTER JOIN asks ON asks.id = annotations.ask_id LEFT OUTER JOIN board_rows ON board_rows.id =
    annotations.row_id
WHERE annotations.id = ANY (CAST(:ids AS TEXT[])) AND annotations.closed_at IS NULL AND (NOT (EXISTS (SELECT
    annotation_deliveries.reader
FROM annotation_deliveries
WHERE annotation_deliveries.annotation_id = annotations.id AND annotation_deliveries.reader = :reader)) OR :full)
ORDER BY annotations.number;

-- name: annotations_seen
-- why: Somebody was handed these words; who was first stays.
-- takes: agent text, ids list
-- gives: nothing
UPDATE annotations SET seen_at=(SELECT date_trunc('milliseconds', clock_timestamp())), seen_by=:agent
WHERE annotations.id = ANY (CAST(:ids AS TEXT[])) AND annotations.seen_at IS NULL;

-- name: annotation_record
-- why: A session was handed these words.
-- takes: id text, reader text, agent text
-- gives: nothing
INSERT INTO annotation_deliveries (annotation_id, reader, agent, first_at) VALUES (:id, :reader, :agent, (SELECT
    date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT (annotation_id, reader) DO NOTHING;

-- name: asks_list
-- why: A page of asks by number, all or those of a state.
-- takes: state text, project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE (CAST(:state AS TEXT) IS NULL OR asks.state = :state) AND (CAST(:project AS TEXT) IS NULL OR asks.project =
    :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL OR
    asks.asked_by = :asked_by) AND asks.number > :after
ORDER BY asks.number

LIMIT :limit;

-- name: asks_newest
-- why: The same, the latest first.
-- takes: state text, project text, kind text, asked_by text, after integer, before integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE (CAST(:state AS TEXT) IS NULL OR asks.state = :state) AND (CAST(:project AS TEXT) IS NULL OR asks.project =
    :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL OR
    asks.asked_by = :asked_by) AND asks.number > :after AND asks.number < :before
ORDER BY asks.number DESC

LIMIT :limit;

-- name: asks_open
-- why: A page of what is open still.
-- takes: project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (CAST(:project AS TEXT) IS NULL OR
    asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL
    OR asks.asked_by = :asked_by) AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_open_newest
-- why: The same, the latest first.
-- takes: project text, kind text, asked_by text, after integer, before integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (CAST(:project AS TEXT) IS NULL OR
    asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL
    OR asks.asked_by = :asked_by) AND asks.number + 0 > :after AND asks.number + 0 < :before
ORDER BY asks.number + 0 DESC

LIMIT :limit;

-- name: asks_urgent
-- why: What needs the human now: first what a task stands still for, then what ends soonest, then the oldest.
-- takes: project text, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind = 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project)
ORDER BY asks.blocking DESC, asks.expires_at IS NULL, asks.expires_at, asks.number

LIMIT :limit;

-- name: asks_attention
-- why: A page of what needs the human now.
-- takes: project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind = 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind)
    AND (CAST(:asked_by AS TEXT) IS NULL OR asks.asked_by = :asked_by) AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_told
-- why: A page of what agents tell, and nobody has dismissed.
-- takes: project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind != 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind)
    AND (CAST(:asked_by AS TEXT) IS NULL OR asks.asked_by = :asked_by) AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_told_newest
-- why: The same, the latest first.
-- takes: project text, kind text, asked_by text, after integer, before integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind != 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind)
    AND (CAST(:asked_by AS TEXT) IS NULL OR asks.asked_by = :asked_by) AND asks.number + 0 > :after AND asks.number + 0
    < :before
ORDER BY asks.number + 0 DESC

LIMIT :limit;

-- name: asks_snoozed
-- why: A page of what sleeps.
-- takes: project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND NOT (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (CAST(:project AS TEXT) IS NULL OR
    asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL
    OR asks.asked_by = :asked_by) AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_unhandled
-- why: A page of what humans have finished with, and agents have not.
-- takes: project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND (CAST(:project AS TEXT) IS NULL OR asks.project = :project)
    AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL OR asks.asked_by =
    :asked_by) AND asks.number + 0 > :after
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_unhandled_newest
-- why: The same, the latest first.
-- takes: project text, kind text, asked_by text, after integer, before integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND (CAST(:project AS TEXT) IS NULL OR asks.project = :project)
    AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT) IS NULL OR asks.asked_by =
    :asked_by) AND asks.number + 0 > :after AND asks.number + 0 < :before
ORDER BY asks.number + 0 DESC

LIMIT :limit;

-- name: asks_unseen
-- why: What humans have answered an agent, and nobody was handed yet.
-- takes: asked_by text, limit integer
-- gives: id text
SELECT asks.id
FROM asks
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND asks.seen_at IS NULL AND asks.asked_by = :asked_by
ORDER BY asks.number + 0

LIMIT :limit;

-- name: asks_search
-- why: A page of asks whose words, or whose responses' words, hold a text; literal and case-folded.
-- takes: needle text, project text, kind text, asked_by text, after integer, limit integer
-- gives: id text, number integer, project text, stream text, kind text, action_owner text, surface text, surface_id
--   text, step_no integer, dedup_key text, blocking boolean, title text, detail text, next_step text, impact text,
--   next_after text, options json, context text, asked_by text, session_id text, state text, revision integer,
--   snoozed_until instant, expires_at instant, response_seq integer, handled_at instant, delivered_seq integer, seen_at
--   instant, seen_by text, taken_by text, taken_session_id text, taken_until instant, outcome text, outcome_at instant,
--   closed_at instant, closed_by text, close_reason text, created_at instant, updated_at instant, response_kind text,
--   response_channel text, response_text text, response_choice text, response_context text, response_revision integer,
--   response_by text, response_at instant
SELECT asks.id, asks.number, asks.project, asks.stream, asks.kind, asks.action_owner, asks.surface, asks.surface_id,
    asks.step_no, asks.dedup_key, asks.blocking, asks.title, asks.detail, asks.next_step, asks.impact, asks.next_after,
    asks.options, asks.context, asks.asked_by, asks.session_id, asks.state, asks.revision, asks.snoozed_until,
    asks.expires_at, asks.response_seq, asks.handled_at, asks.delivered_seq, asks.seen_at, asks.seen_by, asks.taken_by,
    asks.taken_session_id, asks.taken_until, asks.outcome, asks.outcome_at, asks.closed_at, asks.closed_by,
    asks.close_reason, asks.created_at, asks.updated_at, ask_responses.kind AS response_kind, ask_responses.channel AS
    response_channel, ask_responses.text AS response_text, ask_responses.choice AS response_choice,
    ask_responses.context AS response_context, ask_responses.ask_revision AS response_revision, ask_responses.said_by AS
    response_by, ask_responses.created_at AS response_at
FROM asks LEFT OUTER JOIN ask_responses ON ask_responses.ask_id = asks.id AND ask_responses.seq = asks.response_seq AND
    asks.handled_at IS NOT NULL
WHERE (strpos(asks.folded, :needle) > 0 OR (EXISTS (SELECT ask_responses.seq
FROM ask_responses
WHERE ask_responses.ask_id = asks.id AND strpos(ask_responses.folded, :needle) > 0))) AND (CAST(:project AS TEXT) IS
    NULL OR asks.project = :project) AND (CAST(:kind AS TEXT) IS NULL OR asks.kind = :kind) AND (CAST(:asked_by AS TEXT)
    IS NULL OR asks.asked_by = :asked_by) AND asks.number > :after
ORDER BY asks.number

LIMIT :limit;

-- name: attention_count
-- why: How many asks need the human now.
-- takes: project text
-- gives: count integer
SELECT count(asks.number) AS count
FROM asks
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind = 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project);

-- name: told_count
-- why: How many notes and milestones nobody has dismissed.
-- takes: project text
-- gives: count integer
SELECT count(asks.number) AS count
FROM asks
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.snoozed_until IS NULL OR
    asks.snoozed_until <= (SELECT date_trunc('milliseconds', clock_timestamp()))) AND (asks.project NOT IN (SELECT
    projects.name
FROM projects
WHERE projects.closed_at IS NOT NULL AND projects.name IN (SELECT lives.project
FROM asks AS lives
WHERE lives.closed_at IS NULL) AND NOT (EXISTS (SELECT boards.id
FROM boards
WHERE boards.project = projects.name AND boards.created_at > projects.closed_at)) AND NOT (EXISTS (SELECT newer.id
FROM asks AS newer
WHERE newer.project = projects.name AND newer.updated_at > projects.closed_at)))) AND asks.kind != 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project);

-- name: unhandled_count
-- why: How many asks humans have finished with, and agents have not.
-- takes: project text
-- gives: count integer
SELECT count(asks.number) AS count
FROM asks
WHERE asks.handled_at IS NOT NULL AND asks.outcome = '' AND (CAST(:project AS TEXT) IS NULL OR asks.project = :project);

-- name: asks_open_count
-- why: How many asks of a project wait for the human.
-- takes: project text
-- gives: count integer
SELECT count(asks.number) AS count
FROM asks
WHERE asks.closed_at IS NULL AND asks.state = 'open' AND (asks.handled_at IS NOT NULL OR asks.expires_at IS NULL OR
    asks.expires_at > (SELECT date_trunc('milliseconds', clock_timestamp()))) AND asks.kind = 'question' AND
    (CAST(:project AS TEXT) IS NULL OR asks.project = :project);

-- name: project_close
-- why: The human is done with a project.
-- takes: name text
-- gives: nothing
UPDATE projects SET closed_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE projects.name = :name;

-- name: project_reopen
-- why: And wants to see it again.
-- takes: name text
-- gives: nothing
UPDATE projects SET closed_at=NULL
WHERE projects.name = :name;

-- ===== inbox: boards and their rows =====

-- name: board
-- why: One board, for whoever only looks.
-- takes: project text, title text
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
SELECT boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by
FROM boards
WHERE boards.project = :project AND boards.title = :title OR boards.id = :title;

-- name: board_lock
-- why: One board, locked for the write that follows.
-- takes: project text, title text
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
SELECT boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by
FROM boards
WHERE boards.project = :project AND boards.title = :title OR boards.id = :title FOR UPDATE;

-- name: board_insert
-- why: A new board; one of each title in a project, by constraint.
-- takes: id text, number integer, project text, title text, stream text, agent text
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
INSERT INTO boards (id, number, project, title, stream, created_by, created_at, updated_at) VALUES (:id, :number,
    :project, :title, :stream, :agent, (SELECT date_trunc('milliseconds', clock_timestamp())), (SELECT
    date_trunc('milliseconds', clock_timestamp()))) ON CONFLICT (project, title) DO NOTHING
RETURNING boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by;

-- name: board_write
-- why: What a write left a board at; the revision moves where its list of rows or its status did.
-- takes: status text, moved integer, agent text, id text
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
UPDATE boards SET status=:status, revision=(boards.revision + :moved), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), archived_at=CASE WHEN (:status = 'active') THEN NULL ELSE coalesce(boards.archived_at, (SELECT
    date_trunc('milliseconds', clock_timestamp()))) END, archived_by=CASE WHEN (:status = 'active') THEN NULL ELSE
    coalesce(boards.archived_by, :agent) END
WHERE boards.id = :id
RETURNING boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by;

-- name: board_archive
-- why: Set aside a board that is active, at the revision that the caller shows, if it shows one.
-- takes: agent text, project text, title text, version integer
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
UPDATE boards SET status='archived', revision=(boards.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), archived_at=(SELECT date_trunc('milliseconds', clock_timestamp())), archived_by=:agent
WHERE (boards.project = :project AND boards.title = :title OR boards.id = :title) AND boards.status = 'active' AND
    (CAST(:version AS BIGINT) IS NULL OR boards.revision = :version)
RETURNING boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by;

-- name: board_unarchive
-- why: Bring back a board that is archived, at the revision that the caller shows, if it shows one.
-- takes: project text, title text, version integer
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
UPDATE boards SET status='active', revision=(boards.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), archived_at=NULL, archived_by=NULL
WHERE (boards.project = :project AND boards.title = :title OR boards.id = :title) AND boards.status = 'archived' AND
    (CAST(:version AS BIGINT) IS NULL OR boards.revision = :version)
RETURNING boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by;

-- name: boards_list
-- why: Boards, the latest change first.
-- takes: project text, all integer, before_number integer, before instant, limit integer
-- gives: id text, number integer, project text, title text, status text, stream text, created_by text, revision
--   integer, created_at instant, updated_at instant, archived_at instant, archived_by text
SELECT boards.id, boards.number, boards.project, boards.title, boards.status, boards.stream, boards.created_by,
    boards.revision, boards.created_at, boards.updated_at, boards.archived_at, boards.archived_by
FROM boards
WHERE (CAST(:project AS TEXT) IS NULL OR boards.project = :project) AND (CAST(:all AS BIGINT) = 1 OR boards.status =
    'active') AND (CAST(:before_number AS BIGINT) IS NULL OR (boards.updated_at, boards.number) < (:before,
    :before_number))
ORDER BY boards.updated_at DESC, boards.number DESC

LIMIT :limit;

-- name: boards_standing
-- why: How the rows of boards stand, and how many of a human's words on them nobody was handed.
-- takes: ids list
-- gives: id text, tracked integer, partial integer, missing integer, na integer, done integer, blocked integer,
--   last_position integer, unseen integer
SELECT boards.id, count(CASE WHEN (board_rows.status = 'tracked') THEN board_rows.id END) AS tracked, count(CASE WHEN
    (board_rows.status = 'partial') THEN board_rows.id END) AS partial, count(CASE WHEN (board_rows.status = 'missing')
    THEN board_rows.id END) AS missing, count(CASE WHEN (board_rows.status = 'na') THEN board_rows.id END) AS na,
    count(CASE WHEN (board_rows.status = 'done') THEN board_rows.id END) AS done, count(CASE WHEN (board_rows.status =
    'blocked') THEN board_rows.id END) AS blocked, coalesce(max(board_rows.position), 0) AS last_position, (SELECT
    count(annotations.id) AS count_1
FROM annotations JOIN board_rows AS any_row ON any_row.id = annotations.row_id
WHERE any_row.board_id = boards.id AND annotations.seen_at IS NULL AND annotations.closed_at IS NULL) AS unseen
FROM boards LEFT OUTER JOIN board_rows ON board_rows.board_id = boards.id AND board_rows.removed_at IS NULL
WHERE boards.id = ANY (CAST(:ids AS TEXT[]))
GROUP BY boards.id;

-- name: board_rows_lock
-- why: The rows of a board in order, and those set aside whose labels are named; locked for the write that follows.
-- takes: board_id text, labels list
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.board_id = :board_id AND (board_rows.removed_at IS NULL OR board_rows.label = ANY (CAST(:labels AS
    TEXT[])))
ORDER BY board_rows.position, board_rows.number FOR UPDATE;

-- name: board_row_lock
-- why: One row, locked: whoever closes the ask that makes it blocked comes before or after whoever writes it.
-- takes: row_id text
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.id = :row_id FOR UPDATE;

-- name: board_row
-- why: One row by its label or id, for whoever only says something beside it.
-- takes: board_id text, label text
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.board_id = :board_id AND board_rows.board_id = :board_id AND (board_rows.label = :label OR
    board_rows.id = :label);

-- name: board_row_named
-- why: One row by its label or id, locked for the write that follows; also one that was set aside.
-- takes: board_id text, label text
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.board_id = :board_id AND board_rows.board_id = :board_id AND (board_rows.label = :label OR
    board_rows.id = :label) FOR UPDATE;

-- name: board_row_insert
-- why: A new row; one of each label on a board, by constraint.
-- takes: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, step_no integer
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
INSERT INTO board_rows (id, number, board_id, label, status, position, note, next_step, action_owner, impact,
    next_after, options, context, outcome, outcome_at, step_no, created_at, updated_at) VALUES (:id, :number, :board_id,
    :label, :status, :position, :note, :next_step, :action_owner, :impact, :next_after, :options::JSON, :context,
    :outcome, CASE WHEN (:outcome = '') THEN NULL ELSE (SELECT date_trunc('milliseconds', clock_timestamp())) END,
    :step_no, (SELECT date_trunc('milliseconds', clock_timestamp())), (SELECT date_trunc('milliseconds',
    clock_timestamp())))
RETURNING board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status,
    board_rows.position, board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact,
    board_rows.next_after, board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at,
    board_rows.step_no, board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at;

-- name: board_row_write
-- why: What an agent wrote of a row, at the revision that it was read at; one that was set aside is back with it.
-- takes: status text, position integer, note text, next_step text, action_owner text, impact text, next_after text,
--   options json, context text, outcome text, step_no integer, id text, revision integer
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
UPDATE board_rows SET status=:status, position=:position, note=:note, next_step=:next_step, action_owner=:action_owner,
    impact=:impact, next_after=:next_after, options=:options::JSON, context=:context, outcome=:outcome, outcome_at=CASE
    WHEN (:outcome = '') THEN NULL WHEN (:outcome = board_rows.outcome) THEN board_rows.outcome_at ELSE (SELECT
    date_trunc('milliseconds', clock_timestamp())) END, step_no=:step_no, revision=(board_rows.revision + 1),
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp())), removed_at=NULL
WHERE board_rows.id = :id AND board_rows.revision = :revision
RETURNING board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status,
    board_rows.position, board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact,
    board_rows.next_after, board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at,
    board_rows.step_no, board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at;

-- name: board_row_place
-- why: Where a row stands on its board; no change of the row itself.
-- takes: position integer, id text
-- gives: nothing
UPDATE board_rows SET position=:position
WHERE board_rows.id = :id;

-- name: board_rows_set_aside
-- why: Rows that a whole board left out: kept with their words and steps, off the list.
-- takes: ids list
-- gives: nothing
UPDATE board_rows SET revision=(board_rows.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), removed_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE board_rows.id = ANY (CAST(:ids AS TEXT[])) AND board_rows.removed_at IS NULL;

-- name: board_row_unblock
-- why: The ask of a row's step was closed where it stood: it is no longer the human's turn.
-- takes: outcome text, row_id text, step_no integer
-- gives: nothing
UPDATE board_rows SET status='tracked', outcome=:outcome, outcome_at=(SELECT date_trunc('milliseconds',
    clock_timestamp())), revision=(board_rows.revision + 1), updated_at=(SELECT date_trunc('milliseconds',
    clock_timestamp()))
WHERE board_rows.id = :row_id AND board_rows.status = 'blocked' AND board_rows.step_no = :step_no;

-- name: board_rows_listed
-- why: The rows of a board in order.
-- takes: board_id text, limit integer
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.board_id = :board_id AND board_rows.removed_at IS NULL
ORDER BY board_rows.position, board_rows.number

LIMIT :limit;

-- name: board_rows_aside
-- why: Rows of a board that were set aside, the latest first.
-- takes: board_id text, limit integer
-- gives: id text, number integer, board_id text, label text, status text, position integer, note text, next_step text,
--   action_owner text, impact text, next_after text, options json, context text, outcome text, outcome_at instant,
--   step_no integer, revision integer, created_at instant, updated_at instant, removed_at instant
SELECT board_rows.id, board_rows.number, board_rows.board_id, board_rows.label, board_rows.status, board_rows.position,
    board_rows.note, board_rows.next_step, board_rows.action_owner, board_rows.impact, board_rows.next_after,
    board_rows.options, board_rows.context, board_rows.outcome, board_rows.outcome_at, board_rows.step_no,
    board_rows.revision, board_rows.created_at, board_rows.updated_at, board_rows.removed_at
FROM board_rows
WHERE board_rows.board_id = :board_id AND board_rows.removed_at IS NOT NULL
ORDER BY board_rows.removed_at DESC, board_rows.number DESC

LIMIT :limit;

-- name: board_row_words
-- why: What humans said beside rows, the latest first.
-- takes: row_ids list, all integer, limit integer
-- gives: id text, number integer, project text, ask_id text, row_id text, step_no integer, author text, text text,
--   seen_at instant, seen_by text, closed_at instant, close_reason text, created_at instant, about text
SELECT annotations.id, annotations.number, annotations.project, annotations.ask_id, annotations.row_id,
    annotations.step_no, annotations.author, annotations.text, annotations.seen_at, annotations.seen_by,
    annotations.closed_at, annotations.close_reason, annotations.created_at, board_rows.label AS about
FROM annotations JOIN board_rows ON board_rows.id = annotations.row_id
WHERE annotations.row_id = ANY (CAST(:row_ids AS TEXT[])) AND annotations.close_reason != 'withdrawn' AND (CAST(:all AS
    BIGINT) = 1 OR annotations.closed_at IS NULL)
ORDER BY annotations.number DESC

LIMIT :limit;

-- name: boards_raise
-- why: After a restore: above every revision that was shown to anybody.
-- takes: revisions integer
-- gives: nothing
UPDATE boards SET revision=(boards.revision + :revisions);

-- name: board_rows_raise
-- why: After a restore: above every revision that was shown to anybody.
-- takes: revisions integer
-- gives: nothing
UPDATE board_rows SET revision=(board_rows.revision + :revisions);

-- name: asks_raise
-- why: After a restore: above every revision that was shown to anybody.
-- takes: revisions integer
-- gives: nothing
UPDATE asks SET revision=(asks.revision + :revisions);

-- name: ask_responses_raise
-- why: After a restore: above every revision that was shown to anybody.
-- takes: revisions integer
-- gives: nothing
UPDATE ask_responses SET ask_revision=(ask_responses.ask_revision + :revisions);

-- name: takes_end
-- why: After a restore nobody can tell who acts on which response.
-- takes: nothing
-- gives: nothing
UPDATE asks SET taken_by=NULL, taken_session_id=NULL, taken_until=NULL
WHERE asks.taken_until IS NOT NULL AND asks.closed_at IS NULL;

-- ===== checkup: rows that contradict one another, and their repair =====

-- name: wrong_holders
-- why: Tasks with two open attempts.
-- takes: limit integer
-- gives: id text, found text
SELECT attempts.task_id AS id, CAST(count(attempts.attempt) AS TEXT) AS found
FROM attempts
WHERE attempts.ended_at IS NULL
GROUP BY attempts.task_id
HAVING count(attempts.attempt) > 1
ORDER BY attempts.task_id

LIMIT :limit;

-- name: wrong_claims
-- why: Attempts that the history saw claimed twice.
-- takes: limit integer
-- gives: id text, found text
SELECT history.task_id AS id, CAST(history.attempt AS TEXT) AS found
FROM history
WHERE history.action = 'CLAIM'
GROUP BY history.task_id, history.attempt
HAVING count(history.id) > 1
ORDER BY history.task_id, history.attempt

LIMIT :limit;

-- name: wrong_overlaps
-- why: Attempts that went on after the next one had begun: two held the task at one time.
-- takes: limit integer
-- gives: id text, found text
SELECT attempts.task_id AS id, CAST(attempts.attempt AS TEXT) AS found
FROM attempts JOIN attempts AS later ON later.task_id = attempts.task_id AND later.attempt = attempts.attempt + 1
WHERE attempts.ended_at IS NULL OR attempts.ended_at > later.started_at
ORDER BY attempts.task_id, CAST(attempts.attempt AS TEXT)

LIMIT :limit;

-- name: wrong_holds
-- why: Tasks whose holder has no open attempt, or that have an open attempt and no holder.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, tasks.status AS found
FROM tasks
WHERE tasks.status = 'IN_PROGRESS' AND NOT (EXISTS (SELECT attempts.task_id
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.ended_at IS NULL AND attempts.attempt = tasks.attempt AND attempts.agent
    = tasks.assigned_agent)) OR tasks.status != 'IN_PROGRESS' AND (EXISTS (SELECT attempts.task_id
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.ended_at IS NULL))
ORDER BY tasks.id, tasks.status

LIMIT :limit;

-- name: wrong_attempts
-- why: Tasks whose attempt went back: a number was given out that is above it.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, CAST(tasks.attempt AS TEXT) AS found
FROM tasks
WHERE tasks.attempt < coalesce((SELECT max(attempts.attempt) AS max_1
FROM attempts
WHERE attempts.task_id = tasks.id), 0) OR tasks.attempt < coalesce((SELECT max(history.attempt) AS max_2
FROM history
WHERE history.task_id = tasks.id), 0)
ORDER BY tasks.id, CAST(tasks.attempt AS TEXT)

LIMIT :limit;

-- name: wrong_done
-- why: Tasks that are DONE, and nobody did them.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, tasks.status AS found
FROM tasks
WHERE tasks.status = 'DONE' AND NOT (EXISTS (SELECT attempts.task_id
FROM attempts
WHERE attempts.task_id = tasks.id AND attempts.outcome IN ('completed', 'submitted')))
ORDER BY tasks.id, tasks.status

LIMIT :limit;

-- name: wrong_edges
-- why: Dependencies that count as met and are not done, or the reverse.
-- takes: limit integer
-- gives: id text, found text
SELECT task_dependencies.task_id AS id, task_dependencies.depends_on_task_id AS found
FROM task_dependencies JOIN tasks AS dependency ON dependency.id = task_dependencies.depends_on_task_id
WHERE task_dependencies.met IS true AND dependency.status != 'DONE' OR task_dependencies.met IS false AND
    dependency.status = 'DONE'
ORDER BY task_dependencies.task_id, task_dependencies.depends_on_task_id

LIMIT :limit;

-- name: wrong_counts
-- why: Tasks that count more or fewer unmet dependencies than they have.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, CAST(tasks.unmet_dependencies AS TEXT) AS found
FROM tasks
WHERE tasks.unmet_dependencies != (SELECT count(task_dependencies.task_id) AS count_1
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id AND task_dependencies.met IS false)
ORDER BY tasks.id, CAST(tasks.unmet_dependencies AS TEXT)

LIMIT :limit;

-- name: edges_after
-- why: A page of all dependencies, for the search for circles.
-- takes: task_id text, depends_on text, limit integer
-- gives: task_id text, depends_on_task_id text
SELECT task_dependencies.task_id, task_dependencies.depends_on_task_id
FROM task_dependencies
WHERE task_dependencies.task_id > :task_id OR task_dependencies.task_id = :task_id AND
    task_dependencies.depends_on_task_id > :depends_on
ORDER BY task_dependencies.task_id, task_dependencies.depends_on_task_id

LIMIT :limit;

-- name: edge_mend
-- why: Let an edge say whether its dependency is done; in a statement after that task was locked.
-- takes: depends_on text, task_id text
-- gives: met boolean
UPDATE task_dependencies SET met=CASE WHEN (EXISTS (SELECT dependency.id
FROM tasks AS dependency
WHERE dependency.id = :depends_on AND dependency.status = 'DONE')) THEN true ELSE false END
WHERE task_dependencies.task_id = :task_id AND task_dependencies.depends_on_task_id = :depends_on
RETURNING task_dependencies.met;

-- name: count_mend
-- why: Let a task count its unmet dependencies; in a statement after it was locked.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
UPDATE tasks SET unmet_dependencies=(SELECT count(task_dependencies.task_id) AS count_1
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id AND task_dependencies.met IS false), revision=(tasks.revision + 1),
    updated_at=(SELECT date_trunc('milliseconds', clock_timestamp()))
WHERE tasks.id = :task_id AND tasks.unmet_dependencies != (SELECT count(task_dependencies.task_id) AS count_1
FROM task_dependencies
WHERE task_dependencies.task_id = tasks.id AND task_dependencies.met IS false)
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: wrong_leases
-- why: Leases whose task, worktree or session is over.
-- takes: limit integer
-- gives: id text, found text
SELECT CAST(leases.fence AS TEXT) AS id, leases.resource AS found
FROM leases
WHERE leases.released_at IS NULL AND (leases.task_id IS NOT NULL AND leases.worktree_id IS NULL AND NOT (EXISTS (SELECT
    tasks.id
FROM tasks
WHERE tasks.id = leases.task_id AND tasks.status = 'IN_PROGRESS' AND tasks.attempt = leases.attempt)) OR
    leases.worktree_id IS NOT NULL AND (EXISTS (SELECT worktrees.id
FROM worktrees
WHERE worktrees.id = leases.worktree_id AND worktrees.closed_at IS NOT NULL)) OR leases.task_id IS NULL AND
    leases.worktree_id IS NULL AND (EXISTS (SELECT sessions.id
FROM sessions
WHERE sessions.id = leases.session_id AND sessions.ended_at IS NOT NULL)))
ORDER BY CAST(leases.fence AS TEXT), leases.resource

LIMIT :limit;

-- name: lease_orphaned
-- why: The lease of a fence, if its task, worktree or session is over.
-- takes: fence integer
-- gives: id integer, kind text, project text, resource text, prefix text, mode text, agent text, session_id text,
--   task_id text, attempt integer, worktree_id integer, fence integer, depth integer, ttl_seconds integer, acquired_at
--   instant, expires_at instant, released_at instant, release_reason text, told_at instant
SELECT leases.id, leases.kind, leases.project, leases.resource, leases.prefix, leases.mode, leases.agent,
    leases.session_id, leases.task_id, leases.attempt, leases.worktree_id, leases.fence, leases.depth,
    leases.ttl_seconds, leases.acquired_at, leases.expires_at, leases.released_at, leases.release_reason, leases.told_at
FROM leases
WHERE leases.fence = :fence AND leases.released_at IS NULL AND (leases.task_id IS NOT NULL AND leases.worktree_id IS
    NULL AND NOT (EXISTS (SELECT tasks.id
FROM tasks
WHERE tasks.id = leases.task_id AND tasks.status = 'IN_PROGRESS' AND tasks.attempt = leases.attempt)) OR
    leases.worktree_id IS NOT NULL AND (EXISTS (SELECT worktrees.id
FROM worktrees
WHERE worktrees.id = leases.worktree_id AND worktrees.closed_at IS NOT NULL)) OR leases.task_id IS NULL AND
    leases.worktree_id IS NULL AND (EXISTS (SELECT sessions.id
FROM sessions
WHERE sessions.id = leases.session_id AND sessions.ended_at IS NOT NULL)));

-- name: wrong_parked
-- why: Tasks set aside for a scope that nobody holds any more, or without a time at which they return.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, tasks.parked AS found
FROM tasks
WHERE tasks.parked = 'scope' AND (tasks.status != 'TODO' OR NOT (EXISTS (SELECT leases.id
FROM leases
WHERE leases.id = tasks.parked_on AND leases.released_at IS NULL))) OR tasks.parked = 'later' AND tasks.parked_until IS
    NULL OR tasks.parked != 'scope' AND tasks.parked_on IS NOT NULL
ORDER BY tasks.id, tasks.parked

LIMIT :limit;

-- name: task_put_back
-- why: Put a locked task back into the queue, in its old place; one whose time has not come waits for that.
-- takes: task_id text
-- gives: id text, number integer, title text, body text, status text, role_boundary text, project text, priority
--   integer, assigned_agent text, session_id text, lease_until instant, lease_seconds integer, attempt integer,
--   expiries integer, claimed_by text, max_attempts integer, not_before instant, unmet_dependencies integer, parked
--   text, parked_until instant, reserved_for text, reviewer text, review_until instant, rejected_attempt integer,
--   result text, dedup_key text, created_by text, revision integer, created_at instant, updated_at instant, finished_at
--   instant, scoped boolean, parked_on integer, ask_id text
WITH clock AS
(SELECT (SELECT date_trunc('milliseconds', clock_timestamp())) AS now)
UPDATE tasks SET parked=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN 'later' ELSE '' END, parked_until=CASE WHEN (tasks.not_before > (SELECT clock.now
FROM clock)) THEN tasks.not_before ELSE NULL END, revision=(tasks.revision + 1), updated_at=(SELECT
    date_trunc('milliseconds', clock_timestamp())), parked_on=NULL
WHERE tasks.id = :task_id AND (tasks.parked = 'scope' AND (tasks.status != 'TODO' OR NOT (EXISTS (SELECT leases.id
FROM leases
WHERE leases.id = tasks.parked_on AND leases.released_at IS NULL))) OR tasks.parked = 'later' AND tasks.parked_until IS
    NULL OR tasks.parked != 'scope' AND tasks.parked_on IS NOT NULL)
RETURNING tasks.id, tasks.number, tasks.title, tasks.body, tasks.status, tasks.role_boundary, tasks.project,
    tasks.priority, tasks.assigned_agent, tasks.session_id, tasks.lease_until, tasks.lease_seconds, tasks.attempt,
    tasks.expiries, tasks.claimed_by, tasks.max_attempts, tasks.not_before, tasks.unmet_dependencies, tasks.parked,
    tasks.parked_until, tasks.reserved_for, tasks.reviewer, tasks.review_until, tasks.rejected_attempt, tasks.result,
    tasks.dedup_key, tasks.created_by, tasks.revision, tasks.created_at, tasks.updated_at, tasks.finished_at,
    tasks.scoped, tasks.parked_on, tasks.ask_id;

-- name: wrong_cursors
-- why: Consumers that read beyond the end of the log.
-- takes: limit integer
-- gives: id text, found text
SELECT event_cursors.consumer AS id, CAST(event_cursors.delivered AS TEXT) AS found
FROM event_cursors
WHERE event_cursors.delivered > (SELECT coalesce(max(event_feed.position), 0) AS coalesce_1
FROM event_feed) AND event_cursors.delivered > coalesce((SELECT counters.value
FROM counters
WHERE counters.kind = 'events_pruned'), 0)
ORDER BY event_cursors.consumer, CAST(event_cursors.delivered AS TEXT)

LIMIT :limit;

-- name: wrong_rows
-- why: Rows of boards that are blocked and ask nobody, or ask somebody and are not blocked.
-- takes: limit integer
-- gives: id text, found text
SELECT board_rows.id AS id, board_rows.status AS found
FROM board_rows
WHERE (board_rows.status = 'blocked') != (EXISTS (SELECT asks.id
FROM asks
WHERE asks.surface = 'row' AND asks.surface_id = board_rows.id AND asks.closed_at IS NULL))
ORDER BY board_rows.id, board_rows.status

LIMIT :limit;

-- name: wrong_asks
-- why: Tasks that name another ask than the live one about them, or that go on while one is open that they wait for.
-- takes: limit integer
-- gives: id text, found text
SELECT tasks.id AS id, tasks.status AS found
FROM tasks
WHERE coalesce(tasks.ask_id, '') != coalesce((SELECT asks.id
FROM asks
WHERE asks.surface = 'task' AND asks.surface_id = tasks.id AND asks.closed_at IS NULL), '') OR (EXISTS (SELECT asks.id
FROM asks
WHERE asks.id = tasks.ask_id AND asks.state = 'open' AND asks.blocking)) AND (tasks.status NOT IN ('BLOCKED',
    'IN_PROGRESS'))
ORDER BY tasks.id, tasks.status

LIMIT :limit;

-- name: wrong_counters
-- why: Counters below a number that is used.
-- takes: nothing
-- gives: id text, used integer, last integer
SELECT asked.id, asked.used, asked.last
FROM (SELECT counters.kind AS id, (SELECT coalesce(max(asks.number), 0) AS coalesce_1
FROM asks) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'ask' UNION ALL SELECT counters.kind AS id, (SELECT coalesce(max(boards.number), 0) AS coalesce_2
FROM boards) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'board' UNION ALL SELECT counters.kind AS id, (SELECT coalesce(max(tasks.number), 0) AS coalesce_3
FROM tasks) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'task' UNION ALL SELECT counters.kind AS id, (SELECT coalesce(max(board_rows.number), 0) AS
    coalesce_4
FROM board_rows) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'row' UNION ALL SELECT counters.kind AS id, (SELECT coalesce(max(annotations.number), 0) AS
    coalesce_5
FROM annotations) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'annotation' UNION ALL SELECT counters.kind AS id, (SELECT coalesce(max(leases.fence), 0) AS
    coalesce_6
FROM leases) AS used, counters.value AS last
FROM counters
WHERE counters.kind = 'fence') AS asked
WHERE asked.last < asked.used
ORDER BY asked.id;

-- name: missing_counters
-- why: Counters that the migrations make and that are gone.
-- takes: nothing
-- gives: id text
SELECT kinds.id
FROM (SELECT 'ask' AS id UNION ALL SELECT 'board' AS id UNION ALL SELECT 'task' AS id UNION ALL SELECT 'row' AS id UNION
    ALL SELECT 'annotation' AS id UNION ALL SELECT 'fence' AS id UNION ALL SELECT 'events_pruned' AS id) AS kinds
WHERE (kinds.id NOT IN (SELECT counters.kind
FROM counters))
ORDER BY kinds.id;

-- name: ids_last
-- why: Of every table with ids the highest, and the last that was given out.
-- takes: nothing
-- gives: id text, used integer, last integer
SELECT asked.id, asked.used, asked.last
FROM (SELECT 'events' AS id, (SELECT coalesce(max(events.id), 0) AS coalesce_1
FROM events) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')
    THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'events_id_seq') AS BIGINT) AS last UNION ALL SELECT 'history' AS
    id, (SELECT coalesce(max(history.id), 0) AS coalesce_2
FROM history) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename),
    'SELECT') THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'history_id_seq') AS BIGINT) AS last UNION ALL SELECT 'notes' AS
    id, (SELECT coalesce(max(notes.id), 0) AS coalesce_3
FROM notes) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')
    THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'notes_id_seq') AS BIGINT) AS last UNION ALL SELECT 'tokens' AS
    id, (SELECT coalesce(max(tokens.id), 0) AS coalesce_4
FROM tokens) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')
    THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'tokens_id_seq') AS BIGINT) AS last UNION ALL SELECT 'worktrees'
    AS id, (SELECT coalesce(max(worktrees.id), 0) AS coalesce_5
FROM worktrees) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename),
    'SELECT') THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'worktrees_id_seq') AS BIGINT) AS last UNION ALL SELECT 'leases'
    AS id, (SELECT coalesce(max(leases.id), 0) AS coalesce_6
FROM leases) AS used, CAST((SELECT CASE WHEN has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')
    THEN coalesce(last_value, 0) END FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename = 'leases_id_seq') AS BIGINT) AS last) AS asked
ORDER BY asked.id;
