"""Every error a caller can meet: a stable code, an exit status, an HTTP status, a sentence and what to do next.

One class for each thing that a caller would do differently. A message says what happened, to which thing, and who
holds it until when; `hint` says what to do next and never hands out a destructive command to copy. `facts` are the
same things as data, for programs. "Nothing to claim" is an answer, not an error.
"""

from __future__ import annotations

from typing import Any, ClassVar

Fact = str | int | float | bool | None | list[str] | list[dict[str, "Fact"]] | dict[str, "Fact"]


class CoordinateError(Exception):
    """The base of all of them; on its own, a fault of ours (exit status 1).

    Attributes: `message` (a sentence), `hint` (the next step, may be empty), `facts` (data), and per class `code`
    (stable, for programs), `exit_status` (of the command line) and `http_status`.
    """

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", **facts: Fact) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts
        # Set where the call set something right before it had to refuse: that is committed, then this is raised.
        self.keeps_changes = False
        # What the log says of that, for whoever is told after the commit.
        self.kept_events: list[dict[str, Any]] = []

    def as_dict(self) -> dict[str, Fact]:
        """The one-line JSON error of the command line: error, code, hint, then the facts."""
        return {"error": self.message, "code": self.code, "hint": self.hint, **self.facts}


# --- 1: faults --------------------------------------------------------------------------------------------------------


class CopyDiffers(CoordinateError):
    """After a move's copy the two sides were not equal: `tables` says where. The board stays where it was."""

    code = "copy_differs"
    exit_status = 1
    http_status = 500


# --- 2: refused by the rules, or bad input -------------------------------------------------------------------------


class InvalidInput(CoordinateError):
    """A value that may not come in; `field` names it. Nothing was changed."""

    code = "invalid_input"
    exit_status = 2
    http_status = 422


class NotFound(CoordinateError):
    """No such task, consumer, skill, file…"""

    code = "not_found"
    exit_status = 2
    http_status = 404


class InvalidState(CoordinateError):
    """The move does not exist from where the task stands; the message says where that is and whose move it is."""

    code = "invalid_state"
    exit_status = 2
    http_status = 409


class UnmetDependencies(CoordinateError):
    """The task still waits for others; `waits_for` lists them."""

    code = "unmet_dependencies"
    exit_status = 2
    http_status = 409


class UnreachableDependency(CoordinateError):
    """A dependency on a task that was cancelled could never be met."""

    code = "unreachable_dependency"
    exit_status = 2
    http_status = 409


class DependencyCycle(CoordinateError):
    """The edge would close a circle of tasks that wait for each other."""

    code = "dependency_cycle"
    exit_status = 2
    http_status = 409


class SelfReview(CoordinateError):
    """Whoever held the task in this round of work may not review it."""

    code = "self_review"
    exit_status = 2
    http_status = 403


class UnsavedWork(CoordinateError):
    """A worktree holds uncommitted or unmerged work that would be lost."""

    code = "unsaved_work"
    exit_status = 2
    http_status = 409


class NotReady(CoordinateError):
    """The task may not be claimed yet: its `not_before` lies in the future, or it is set aside for somebody."""

    code = "not_ready"
    exit_status = 2
    http_status = 409


class Empty(CoordinateError):
    """A response without words, where words are what was asked for."""

    code = "empty"
    exit_status = 2
    http_status = 422


class Closed(CoordinateError):
    """The ask is closed: a response to it would reach nobody. Nothing was changed."""

    code = "closed"
    exit_status = 2
    http_status = 409


class NotAQuestion(CoordinateError):
    """A note or a milestone is not answered; say something beside it with `annotate`."""

    code = "not_a_question"
    exit_status = 2
    http_status = 409


class AlreadySeen(CoordinateError):
    """Somebody was handed it: un-saying it would not un-tell them. `seen_by` names who was first."""

    code = "already_seen"
    exit_status = 2
    http_status = 409


class AlreadyDecided(CoordinateError):
    """A response that passed or refused a review cannot be unsaid."""

    code = "already_decided"
    exit_status = 2
    http_status = 409


class AskOpen(CoordinateError):
    """The task waits for a human; `ask_id` names the ask that has to be answered or withdrawn."""

    code = "ask_open"
    exit_status = 2
    http_status = 409


class MissingExtra(CoordinateError):
    """An optional part is not installed."""

    code = "missing_extra"
    exit_status = 2
    http_status = 501


class UnsupportedConnection(CoordinateError):
    """`using()` was given something that is no synchronous pysqlite or psycopg 3 connection."""

    code = "unsupported_connection"
    exit_status = 2
    http_status = 500


class PermissionDenied(CoordinateError):
    """The database role or the file's permissions do not allow it."""

    code = "permission_denied"
    exit_status = 2
    http_status = 403


class NotAuthenticated(CoordinateError):
    """No token was shown, or one that is unknown, revoked or past its time."""

    code = "not_authenticated"
    exit_status = 2
    http_status = 401


class NotAllowed(CoordinateError):
    """The caller's role does not include this operation."""

    code = "not_allowed"
    exit_status = 2
    http_status = 403


class NotEmpty(CoordinateError):
    """What is to be filled holds something already: a board with tasks, a file that is there."""

    code = "not_empty"
    exit_status = 2
    http_status = 409


class CannotMove(CoordinateError):
    """The checks before a move found what stands in its way: `problems`, and `values` that the other engine refuses."""

    code = "cannot_move"
    exit_status = 2
    http_status = 409


# --- 3: held by another ---------------------------------------------------------------------------------------------


class Held(CoordinateError):
    """Somebody else holds it now; `holder` and `until` say who and for how long."""

    code = "held_by_another"
    exit_status = 3
    http_status = 409


class AlreadyAsked(CoordinateError):
    """Another ask lives in this place; `ask_id` names it."""

    code = "already_asked"
    exit_status = 3
    http_status = 409


# --- 4: outdated ----------------------------------------------------------------------------------------------------


class StaleClaim(CoordinateError):
    """The handle's attempt is over: the claim was lost, finished or given away. Nothing was changed."""

    code = "stale_claim"
    exit_status = 4
    http_status = 409


class UnreadAnswer(CoordinateError):
    """A human's answer waits that the caller was not handed; `text` and the facts beside it hold it."""

    code = "unread_inbox_answer"
    exit_status = 4
    http_status = 409


class AnswerChanged(CoordinateError):
    """Another response stands than the one that was named, or none; `response_seq` is the current number."""

    code = "answer_changed"
    exit_status = 4
    http_status = 409


class OutdatedRevision(CoordinateError):
    """The row changed since it was read; `revision` is the current one."""

    code = "outdated_revision"
    exit_status = 4
    http_status = 409


# --- 5: try again ---------------------------------------------------------------------------------------------------


class Busy(CoordinateError):
    """The database stayed locked for longer than the wait allowed. Nothing was changed."""

    code = "busy"
    exit_status = 5
    http_status = 503


class Unreachable(CoordinateError):
    """The database does not answer. Nothing was changed."""

    code = "unreachable"
    exit_status = 5
    http_status = 503


class OutcomeUnknown(CoordinateError):
    """The connection broke while the change was being committed: it happened wholly or not at all, look which."""

    code = "outcome_unknown"
    exit_status = 5
    http_status = 503


class ReadOnly(CoordinateError):
    """The server accepts no writes now (a standby), or the file may not be written."""

    code = "read_only"
    exit_status = 5
    http_status = 503


class Moving(CoordinateError):
    """The board is being moved to `address`, or filled from there: writers wait, nothing was changed."""

    code = "moving"
    exit_status = 5
    http_status = 503


class MigrationBlocked(CoordinateError):
    """An upgrade or a move gave up its short wait for a lock; `blocked_by` names the backends in the way."""

    code = "migration_blocked"
    exit_status = 5
    http_status = 503


class NotDelivered(CoordinateError):
    """A webhook's address did not accept what was sent; the message says what it answered."""

    code = "not_delivered"
    exit_status = 5
    http_status = 502


# --- 6: no board here, or not the schema this program knows -----------------------------------------------------------


class NoBoard(CoordinateError):
    """There is no board where the call looked."""

    code = "no_board"
    exit_status = 6
    http_status = 503


class NotABoard(CoordinateError):
    """Something is there, but it is not a board: another program's file, foreign tables, or damaged."""

    code = "not_a_board"
    exit_status = 6
    http_status = 503


class SchemaBehind(CoordinateError):
    """The database's schema is older than this program needs."""

    code = "schema_behind"
    exit_status = 6
    http_status = 503


class SchemaAhead(CoordinateError):
    """The database was made by a newer version that this program may not write to."""

    code = "schema_ahead"
    exit_status = 6
    http_status = 503


class UnsupportedDatabase(CoordinateError):
    """The linked SQLite or the Postgres server is too old."""

    code = "unsupported_database"
    exit_status = 6
    http_status = 503


# --- 7: it is elsewhere now -------------------------------------------------------------------------------------------


class Moved(CoordinateError):
    """The board is at `address` now. Nothing was changed here."""

    code = "moved"
    exit_status = 7
    http_status = 410


# What keeps something alive meets these, and tries again: the board is busy or away for a while.
AWAY = (Busy, Unreachable, ReadOnly, OutcomeUnknown)
