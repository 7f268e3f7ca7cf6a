"""The state machine of a task: every move that exists, from where, to where, and whose move it is.

The CHECK constraints, the guards of the statements, the error texts, the diagram in the docs and the random-walk test
all come from this table. Every status has an owner and a way out.
"""

from __future__ import annotations

from coordinate.frozen import dataclass

TODO = "TODO"
IN_PROGRESS = "IN_PROGRESS"
BLOCKED = "BLOCKED"
IN_REVIEW = "IN_REVIEW"
DONE = "DONE"
CANCELLED = "CANCELLED"

STATUSES = (TODO, IN_PROGRESS, BLOCKED, IN_REVIEW, DONE, CANCELLED)
FINAL = (DONE, CANCELLED)
LIVE = tuple(status for status in STATUSES if status not in FINAL)

OWNERS = {
    TODO: "the queue: any agent of its role",
    IN_PROGRESS: "the holder of the claim",
    BLOCKED: "whoever can unblock it",
    IN_REVIEW: "a reviewer who did not work on it",
    DONE: "nobody",
    CANCELLED: "nobody",
}

# How many leases of a task may expire before it is BLOCKED, where neither it nor its project says another number.
MAX_ATTEMPTS = 5

# Why a ready task is set aside from the queue ('' = it is not).
PARKED = ("", "later", "scope", "reserved")

NOTE_TYPES = ("PROGRESS", "ERROR", "DECISION", "REVIEW", "SYSTEM", "BLOCKED", "REJECTED", "COMMENT")
PROGRESS_NOTE_TYPES = ("PROGRESS", "ERROR", "DECISION")

# How an attempt can end.
OUTCOMES = ("completed", "submitted", "blocked", "released", "transferred", "expired", "cancelled")

# Where a worktree's changes stand; the last two close it.
WORKTREE_STATES = ("open", "gating", "integrating", "conflict", "replaying", "merged", "aborted")
WORKTREE_CLOSED = ("merged", "aborted")

# What an agent asks of a human, who gives what, where it hangs, and how it ends.
ASK_KINDS = ("question", "note", "done")
ACTION_OWNERS = ("decision", "task", "approval")
SURFACES = ("alone", "task", "row")
ASK_STATES = ("open", "answered", "closed")
RESPONSE_KINDS = ("answer", "clarify", "decline", "handled")
CLOSE_REASONS = ("done", "superseded", "withdrawn", "dismissed", "expired")

# Where a row of a board stands; `blocked` is the human's turn.
ROW_STATUSES = ("tracked", "partial", "missing", "na", "done", "blocked")

# What a token lets its bearer do; see `operations.py`.
TOKEN_ROLES = ("worker", "reviewer", "manager", "human", "admin")


@dataclass(frozen=True)
class Move:
    """One legal move: `verb` takes a task from any of `sources` to `target`; `action` names it in the history,
    `event` in the log, and `outcome` is how it ends the open attempt ('' = it leaves attempts alone)."""

    verb: str
    sources: tuple[str, ...]
    target: str
    owner: str
    action: str
    event: str
    outcome: str = ""


MOVES = (
    Move("claim", (TODO,), IN_PROGRESS, "any agent of its role", "CLAIM", "task.claimed"),
    Move("complete", (IN_PROGRESS,), DONE, "the holder", "COMPLETE", "task.completed", "completed"),
    Move("submit", (IN_PROGRESS,), IN_REVIEW, "the holder", "SUBMIT", "task.submitted_for_review", "submitted"),
    Move("block", (IN_PROGRESS,), BLOCKED, "the holder", "BLOCK", "task.blocked", "blocked"),
    Move("release", (IN_PROGRESS,), TODO, "the holder", "RELEASE", "task.released", "released"),
    Move("expire", (IN_PROGRESS,), TODO, "the clock", "EXPIRE", "task.lease_expired", "expired"),
    Move("exhaust", (IN_PROGRESS,), BLOCKED, "the clock", "EXPIRE", "task.lease_expired", "expired"),
    Move("transfer", (IN_PROGRESS,), IN_PROGRESS, "the holder", "TRANSFER", "task.transferred", "transferred"),
    Move("unblock", (BLOCKED,), TODO, "anyone", "UNBLOCK", "task.unblocked"),
    Move("await", (TODO,), BLOCKED, "the inbox", "BLOCK", "task.waits_again"),
    Move("approve", (IN_REVIEW,), DONE, "a reviewer", "APPROVE", "review.approved"),
    Move("reject", (IN_REVIEW,), TODO, "a reviewer", "REJECT", "review.rejected"),
    Move("cancel", LIVE, CANCELLED, "anyone", "CANCEL", "task.cancelled", "cancelled"),
    Move("reopen", FINAL, TODO, "anyone", "REOPEN", "task.reopened"),
)

MOVE = {move.verb: move for move in MOVES}
# Whose moves are no verbs of their own: time passes, or a human takes an answer back.
BY_THEMSELVES = ("the clock", "the inbox")


def ways_out(status: str) -> list[str]:
    """The verbs that lead out of a status, for error texts."""
    return [move.verb for move in MOVES if status in move.sources and move.owner not in BY_THEMSELVES]
