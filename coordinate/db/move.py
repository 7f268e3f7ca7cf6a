"""Move a board to another database: from a file to Postgres, or back, by the same steps.

The row `board_move` of the board that is left decides. First that board is fenced, so that nothing changes any more;
then the other is filled in one transaction, behind a fence of its own; then both are read once more and compared; then,
in one transaction, the old board says where the new one is; and only then does the new one open. Whatever is killed
between two of these steps, at most one of the boards can be written, and the next run sees in the two rows where to go
on. A move that fails lifts the fence again; one that was killed is resumed or undone by whoever runs it next. The new
place is closed before the old board is fenced, and stays closed when the move is given up: it is never taken for the
board by those who were told of it early. It sends them back, until the board moves there after all, or the place is
opened for other use.
"""

from __future__ import annotations

import random
import re
import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from coordinate import errors, signals
from coordinate.db import fence, knowledge, migrate, names, sides
from coordinate.db.engine import Tx
from coordinate.db.fence import ARRIVED, ARRIVING, COPIED, MOVED, MOVING, STAYED, WITHDRAWN, sentence
from coordinate.db.schema import board_move, counters
from coordinate.db.sides import FENCED, TABLES, Digest, Side, digest, has_mark, holds, side_of

R = TypeVar("R")
# What is being done ("copy", "verify"), to which table, and how many rows and bytes of it just now.
Progress = Callable[[str, str, int, int], None]

VALUES_MAX = 10_000
# From the fence's end to the note that nothing is left, an undo takes less.
AT_IT_SECONDS = 2.0
# Control characters, and what a path has of bytes that are no UTF-8.
_UNSAYABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Copied and compared, as measured on two cores with boards of a million tasks.
ROWS_PER_SECOND = 30_000


@dataclass(frozen=True, slots=True)
class MoveReport:
    """What a move did, or would do (`dry_run`): every table with its rows and its checksum, equal on both sides.

    `added_seconds` is how long nobody could write; so much longer run the `holds` (leases, takes, asks with a
    timeout, signs of life) that were live when the fence went up. `state`: checked, moved, undone, or opened (see
    `undo`); `already`, by whoever came before, or by the move itself as it failed. Of a board that was only checked,
    `rows` and `bytes` (as stored) are what a move would carry, and nobody could write for about `expected_seconds`.
    `inert`: the tables on which an undo left a trigger of the fence, which lets everybody pass; `coordinate db doctor
    --repair` takes it away.
    After an undo the new place stays closed, if it was: `opens` is what empties and opens it for other use.
    """

    state: str
    source: str
    target: str
    tables: dict[str, Digest]
    rows: int
    bytes: int
    copy_seconds: float
    verify_seconds: float
    added_seconds: float
    holds: int
    expected_seconds: float = 0.0
    already: bool = False
    inert: tuple[str, ...] = ()
    opens: str = ""


def move(
    source: str,
    target: str | None,
    *,
    dry_run: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> MoveReport:
    """Move the board at `source` to `target`, which is made if it is not there, and must hold nothing.

    All or nothing: until both sides were compared, `source` is the board, and a failure lifts its fence again. Raises
    `CannotMove` with everything that stands in the way, `Moving` when another move of this board runs (or was killed:
    then `resume`), `Moved` when it is elsewhere already, `CopyDiffers`, `MigrationBlocked`.

    `resume` goes on with the move that was begun, to the place that the board keeps unless `target` names it; where
    none was begun, it begins one to `target`. Raises `InvalidState` when none was begun and none is named,
    `InvalidInput` when the one that was begun goes elsewhere; then nothing is changed anywhere.
    """
    row = _row_of(source)
    if resume and not _begun(row):
        if target is None:
            hint = "nothing was fenced, and there is nothing to resume; with --to it begins one"
            raise errors.InvalidState("no move of this board is under way", hint=hint)
        resume = False
    if _begun(row) and not resume:
        raise _not_again(row)
    if target is None and not resume:
        raise errors.InvalidInput("a move needs a place to go to", hint="name it", field="to")
    ends = _Ends(source, target or row.address, progress or (lambda *_: None))
    if resume:
        ends.refuse_another_place(row)
    else:
        ends.check(row)
    if dry_run:
        return ends.outlook()
    return ends.carry(row, begun=resume)


def undo(source: str, target: str | None = None) -> MoveReport:
    """Lift the fence of a board that moves, or has moved to a place where nothing has been written since.

    The new place is closed for good, and sends its callers back. `target` is needed where the address that the board
    keeps does not suffice to reach it. Named once more when the move is over, the place that it left closed is emptied
    and opened for other use (`opened`). A mover that has not fenced the board yet comes no further. Of several at once
    one does it; to the others, and to whoever asks again, it was done `already`, and nothing is changed. Raises
    `InvalidState` when there never was anything to undo, or the other board was written to, or came from another place
    of which this is a copy; `InvalidInput` when the move goes elsewhere. A copy that was made while the board moved is
    opened, and nothing else is changed.
    """
    row = _row_when_nobody_is_at_it(source)
    if _begun(row):
        ends = _Ends(source, target or row.address, lambda *_: None)
        return ends.take_back(row, named=target is not None)
    if target is not None:
        return _Ends(source, target, lambda *_: None).clear_what_was_left(row)
    if row is not None and row.state == STAYED:
        ends = _Ends(source, row.address, lambda *_: None)
        return ends.call_off(row) if row.opened_at is None else ends.report("undone", already=True)
    raise errors.InvalidState("this board is not moving and has not moved", hint="there is nothing to undo")


def _row_of(source: str) -> Any:
    standing = migrate.current(source)
    knowledge.judge(list(standing.revisions), standing.window, standing.database, [])
    side = side_of(source)
    with side.transaction(writes=False) as tx:
        row = tx.one("move_state")
    if not _begun(row) and (closed := fence.stops(row)) is not None:
        raise closed  # it is no board, or is one no longer
    return row


def _row_when_nobody_is_at_it(source: str) -> Any:
    """The record once another that undoes the move has ended, or did not for so long that none may be there."""
    until = time.monotonic() + AT_IT_SECONDS
    row = _row_of(source)
    while row is not None and row.state == STAYED and row.opened_at is None and time.monotonic() < until:
        time.sleep(0.05)
        row = _row_of(source)
    return row


def _begun(row: Any) -> bool:
    return row is not None and row.state in (MOVING, MOVED)


def rows_of(source: str) -> int:
    """How many rows a move would copy."""
    side = side_of(source)
    with side.transaction(writes=False):
        return sum(side.count(table) for table in TABLES)


class _Ends:
    """The two sides of one move, and the steps between them."""

    def __init__(self, source: str, target: str, progress: Progress) -> None:
        self.source, self.target = side_of(source), side_of(target)
        self.source_url, self.target_url = source, target
        self.from_, self.to = self.source.engine.address(), self.target.engine.address()
        for place in (self.from_, self.to):
            if _UNSAYABLE.search(place):
                raise errors.InvalidInput(
                    f"{place!r} holds a line break, or another character that cannot be told",
                    hint="writers are told where a board goes, in one line: rename the file or its folder",
                    field="to",
                )
        self.progress = progress
        # Whether this mover may lift the fence when it ends: it raised it, or has been the one who fills the target.
        # Whoever goes on with a move may do so beside a mover that lives, and until then only waits for it.
        self.is_ours = False
        # What stood in the source's record when this mover last wrote or read it; whoever undoes the move changes it.
        self.noted: Any = None
        self.has_closed = False
        self.tables: dict[str, Digest] = {}
        self.copy_seconds = self.verify_seconds = self.added = 0.0
        self.holds = 0
        self.inert: tuple[str, ...] = ()

    # --- before anything is changed

    def refuse_another_place(self, row: Any) -> None:
        """A move goes on, or back, where it was begun: named in the same words, or by what stands there."""
        if self.to == row.address:
            return
        self.refuse_itself()
        there = self._target_row()
        if there is not None and there.move == row.move:
            return
        if row.state == MOVED:
            raise _not_again(row)
        raise errors.InvalidInput(
            f"{sentence(MOVING, row.address)}, and not to {self.to}",
            hint="nothing was changed; without --to the move goes on, or is given up, where it was begun:"
            " coordinate db move --resume, or --undo",
            field="to",
            address=row.address,
        )

    def refuse_itself(self) -> None:
        if sides.same_place(self.source, self.target):
            raise errors.InvalidInput(f"{self.to} is the board itself", hint="nothing was changed", field="to")

    def check(self, row: Any) -> None:
        """Raise `CannotMove` with all that stands in the way: of the target, of the rights, and every single value."""
        problems = [*self._problems_of_source(), *self._problems_of_target(row)]
        values: list[dict[str, errors.Fact]] = []
        count = 0
        with self.source.transaction(writes=False):
            for fault in self.source.faults():
                count += 1
                if count <= VALUES_MAX:
                    values.append(
                        {"table": fault.table, "row": fault.row, "column": fault.column, "fault": fault.fault}
                    )
        if not problems and not count:
            return
        said = [*problems, *([f"{count} value(s) that {self.to} would refuse"] if count else [])]
        raise errors.CannotMove(
            f"the board cannot move: {'; '.join(said)}",
            hint="put right what is listed, then run it again; nothing was changed",
            problems=problems,
            values=values,
            values_count=count,
        )

    def _problems_of_source(self) -> list[str]:
        with self.source.transaction(writes=False):
            found = self.source.problems()
        return [f"{self.from_}: {problem}" for problem in [*found, *self.source.in_our_way(())]]

    def _problems_of_target(self, row: Any) -> list[str]:
        try:
            if sides.same_place(self.source, self.target):
                return [f"source and target are the same: {self.to} is the board itself"]
            standing = migrate.current(self.target_url, missing_ok=True)
            if not standing.revisions:
                new = names.of_a_board(self.target.engine.name)
                found = [*self.target.make_room(dry_run=True), *self.target.in_our_way(new)]
            else:
                if not set(standing.revisions) <= set(knowledge.REVISIONS):
                    knowledge.judge(list(standing.revisions), standing.window, standing.database, [])
                with self.target.transaction(writes=False) as tx:
                    found = self.target.problems() or self._occupied(tx, [row.move] if row is not None else [])
                    if links := self.target.links_of_others():
                        found.append(f"has keys of other tables that name rows of the board: {', '.join(links)}")
                if standing.fence is not None and not standing.at_head:
                    found.append(f"is closed, and of another schema: {self._opens()} opens it first")
                found += self.target.in_our_way(migrate.makes(self.target.engine.name, standing.revisions[0]))
        except errors.Unreachable:
            raise
        except errors.CoordinateError as error:
            return [f"{self.to}: {error.message}"]
        except OSError as error:
            return [f"{self.to}: {error.strerror}"]
        return [f"{self.to}: {problem}" for problem in found]

    def _occupied(self, tx: Tx, ours: Sequence[str]) -> list[str]:
        """What is on the target, unless it came by a move of this board: the last one, the one that goes on, or any
        that was given up.

        Whoever was killed while it made the place left one of an older schema: it lacks some of the tables.
        """
        there = self.target.tables()
        row = tx.one("move_state") if board_move.name in there else None
        if row is not None and row.state in (ARRIVING, COPIED, WITHDRAWN):
            is_ours = row.move in ours or (row.state == WITHDRAWN and row.address == self.from_)
            return [] if is_ours else [_taken(row)]
        if (closed := fence.stops(row)) is not None:
            return [closed.message]
        ours_to_fill = [table for table in TABLES if table.name in there and table is not counters]
        full = [table.name for table in ours_to_fill if self.target.count(table)]
        if counters.name in there and self.target.highest(counters, counters.c.value):
            full.append(counters.name)  # the migrations put some there, at nought
        return [f"is not empty: there are rows in {', '.join(full)}"] if full else []

    # --- the steps

    def carry(self, row: Any, *, begun: bool) -> MoveReport:
        """From wherever the two rows say that it stands, to its end."""
        there = self._row_there(row) if begun else self._target_row()
        same = begun and there is not None and there.move == row.move
        match row.state if begun else None, there.state if same else None:
            case (None, None) | (fence.MOVING, None | fence.ARRIVING | fence.COPIED):
                pass
            case fence.MOVED, fence.COPIED:
                return self._open(row.move)
            case fence.MOVED, fence.ARRIVED:
                return self.report("moved")
            case fence.MOVED, fence.WITHDRAWN:
                raise errors.InvalidState(
                    "this move is being undone: its new place is closed for good, and the board not open yet",
                    hint="finish that: coordinate db move --undo",
                )
            case fence.MOVED, None:
                raise _not_again(row)
            case here, other:
                raise _contradiction(here, other, self.to)
        number = row.move if begun else secrets.token_hex(8)
        self.is_ours, self.noted = not begun, row
        try:
            if not same:
                self._close_target(number, row)
            if not (same and there.state == COPIED):
                self._fence_source(number)  # also when it goes on: not all of it may be up
                self._claim_target(number, row)
                self.source.settle()
                self._copy(number)
            self._verify(number)
            self._send_on(number)
        except BaseException as error:
            # Where another mover is at it, the fence is that one's.
            is_over = self._give_up(number, lifts=self.is_ours and not isinstance(error, errors.Moving))
            if is_over and self.has_closed and isinstance(error, errors.CoordinateError):
                error.hint = (
                    f"{error.hint}; this board works as before; {self.to} stays closed: the same move may go there"
                    f" again, or for other use {self._opens()} opens it"
                )
            raise
        return self._open(number)

    def _target_row(self) -> Any:
        if not migrate.current(self.target_url, missing_ok=True).revisions:
            return None
        with self.target.transaction(writes=False) as tx:
            return tx.one("move_state") if board_move.name in self.target.tables() else None

    def _row_there(self, row: Any) -> Any:
        """Of a move that was begun: None where its new place is to be made again. A copy of the board has no say."""
        try:
            there = self._target_row()
        except errors.NoBoard as error:  # nothing is there, in which one could be made
            raise _gone(row, error.message) from None
        if there is None and row.state == MOVED:
            raise _gone(row, "no board that came from here is there")
        if there is not None and there.move == row.move and not self._came_from_here(there):
            self.refuse_itself()
            raise errors.InvalidState(
                f"{self.to} came from {there.address}, of which {self.from_} is a copy, as seen from here",
                hint="name that one with --from, where it can be reached; nothing was changed",
            )
        return there

    def _came_from_here(self, there: Any) -> bool:
        """A copy of the board that is left tells of the same move; but one place has many names, see `same_place`."""
        if there.address == self.from_:
            return True
        with suppress(errors.CoordinateError, OSError):
            return sides.same_place(self.source, side_of(there.address))
        return False

    def _close_target(self, number: str, before: Any) -> None:
        """Nobody may write there from before the source is fenced, nor before: where no board is yet, the transaction
        that makes it closes it. The source notes first which move that is, as one that was given up: so whoever is
        killed in between left a board that works, and a place that it knows again.
        """

        def note(tx: Tx) -> Any:
            self._as_noted(tx)
            tx.run("move_begin", move=number, state=STAYED, address=self.to, fenced_at=tx.now())
            return tx.the("move_state")

        if not _begun(before):
            self.noted = _with_writers_stopped(self.source, note, [])
        self._make_target(number, before)
        self._claim_target(number, before)
        # Readers who would be in the way of the copy are waited for now, while everybody still works on the source.
        _with_writers_stopped(self.target, lambda _: self.target.stop_readers(), [])

    def _as_noted(self, tx: Tx) -> Any:
        """The source's record, if nobody began or undid a move since this mover looked."""
        row = tx.one("move_state")
        if row != self.noted and _begun(row):
            raise _not_again(row)
        self._still(row == self.noted)
        return row

    def _make_target(self, number: str, before: Any) -> None:
        """Make the place, or bring it to head, and close it in the same transaction: those who wait for a board there
        never find an open one.
        """

        def close(connection: Any) -> None:
            with self.target.joined(connection) as tx:
                self.target.stop_writers(FENCED)
                self._close(tx, number, before)

        if found := self.target.make_room(dry_run=False):
            raise errors.CannotMove(f"{self.to}: {'; '.join(found)}", hint="nothing was changed", problems=found)
        self.target.make_like(self.source)
        try:
            migrate.upgrade(self.target_url, last=close)
        except errors.Busy as busy:
            raise self.target.in_the_way(busy, readers=True) from None

    def _fence_source(self, number: str) -> None:
        """The step that decides between two movers; once it is over nothing changes on the source.

        First the row, then the tables as the source says: while some are fenced and some are not, a change is made
        wholly or refused wholly, since nothing is copied before the last one is fenced.
        """

        def decide(tx: Tx) -> None:
            row, now = self._as_noted(tx), tx.now()
            since = row.fenced_at if _begun(row) else now
            tx.run("move_begin", move=number, state=MOVING, address=self.to, fenced_at=since)

        def fence(tx: Tx) -> None:
            row = tx.one("move_state")
            self._still(row is not None and (row.move, row.state) == (number, MOVING))
            self.source.raise_fence(sentence(MOVING, self.to), tables)

        _with_writers_stopped(self.source, decide, [])
        try:
            tables: Sequence[str] = FENCED
            with suppress(errors.Busy), self.source.transaction(writes=True) as tx:
                self.source.stop_writers(tables, wait=False)
                return fence(tx)
            for tables in self.source.fenced_together():
                _with_writers_stopped(self.source, fence, tables)
        except BaseException:
            # Whoever is in the way may hold rows too: no time is given back for the little that was lost.
            if self.is_ours:
                with signals.ignored(signals.ENDING), suppress(errors.CoordinateError):
                    self._lift_source(number, MOVING, gives_time=False)
            raise

    def _close(self, tx: Tx, number: str, before: Any) -> None:
        """Within one transaction of the target, whose writers are stopped: what they were quicker with is seen."""
        row = tx.one("move_state")
        self._still(row is None or (row.move, row.state) != (number, COPIED))  # another mover has filled it
        if found := self._occupied(tx, [number, *([before.move] if before is not None else [])]):
            hint = "coordinate db move --undo opens the old board" if _begun(before) else "name an empty place"
            raise errors.NotEmpty(f"{self.to}: {'; '.join(found)}", hint=f"{hint}; nothing was changed")
        fenced_at = self._source_row().fenced_at
        tx.run("move_begin", move=number, state=ARRIVING, address=self.from_, fenced_at=fenced_at)
        self.target.raise_fence(sentence(ARRIVING, self.from_))
        self.has_closed = True

    def _claim_target(self, number: str, before: Any) -> None:
        try:
            _with_writers_stopped(self.target, lambda tx: self._close(tx, number, before))
        except (errors.Busy, errors.MigrationBlocked) as error:
            if not _begun(before):
                raise
            raise errors.Moving(
                f"another mover fills {self.to} just now: {error.message}",
                hint="let that one end; if it was killed, run this again; nothing was changed",
                address=self.to,
            ) from None

    def _copy(self, number: str) -> None:
        """Fill the target in one transaction: whoever looks sees nothing or all of it."""
        started = time.monotonic()

        def fill(tx: Tx) -> None:
            self._still(tx.count("move_pass", move=number, before=ARRIVING, state=COPIED, opened_at=None))
            self.target.open_fence()  # for this transaction alone, whose last step raises it again
            self.target.empty()
            later = self.target.strip()
            self.is_ours = True  # nobody is waited for any more
            with self.source.transaction(writes=False):
                for table in TABLES:
                    for rows, size in self.target.write(table, self.source.pages(table)):
                        self.progress("copy", table.name, rows, size)
                    if has_mark(table):
                        self.target.set_mark(table, self.source.mark(table))
            for statement in later:
                self.target.run(statement)
            self.target.raise_fence(sentence(COPIED, self.from_))

        _with_writers_stopped(self.target, fill)
        self.copy_seconds = time.monotonic() - started

    def _verify(self, number: str) -> None:
        """Read both sides once more, over other connections, and compare every table."""
        started = time.monotonic()
        differ = []
        with self.source.transaction(writes=False), self.target.transaction(writes=False):
            for table in TABLES:
                here, there = digest(self.source, table), digest(self.target, table)
                self.tables[table.name] = here
                self.progress("verify", table.name, here.rows, 0)
                marks = not has_mark(table) or self.source.mark(table) <= self.target.mark(table)
                if here != there or not marks:
                    differ.append(f"{table.name} ({here.rows} rows here, {there.rows} there)")
        self.verify_seconds = time.monotonic() - started
        if differ:
            row = self._source_row()
            self._still(row is not None and (row.move, row.state) == (number, MOVING))  # else they differ rightly
            self.is_ours = True  # no mover can go on with it
            raise errors.CopyDiffers(
                f"the copy at {self.to} is not equal: {', '.join(differ)}",
                hint="the board stays where it is; somebody changed the copy, or this is a fault: please report it",
                tables=differ,
            )

    def _send_on(self, number: str) -> None:
        """The decision, in one transaction of the source: it is the board no longer. The copy is there to the end."""

        def act(there: Tx) -> None:
            copied = there.one("move_state")
            self._still(copied is not None and (copied.move, copied.state) == (number, COPIED))
            with self.source.transaction(writes=True) as tx:
                self._still(tx.count("move_pass", move=number, before=MOVING, state=MOVED, opened_at=None))
                self.source.raise_fence(sentence(MOVED, self.to))

        _with_writers_stopped(self.target, act, [])

    def _open(self, number: str) -> MoveReport:
        """The last step: holds get the time back that they lost, then the target may be written."""

        def act(tx: Tx) -> None:
            row, now = tx.one("move_state"), tx.now()
            self._still(tx.count("move_pass", move=number, before=COPIED, state=ARRIVED, opened_at=now))
            assert row is not None
            self.target.open_fence()
            self._give_time(self.target, row.fenced_at, now)
            self._raise_counters(tx)
            self.target.open_feed()
            self.target.lift_fence()  # last, since on Postgres it locks out readers

        try:
            _with_writers_stopped(self.target, act)
        except errors.Moving:  # another did it, or undid the move
            raise
        except errors.CoordinateError as error:
            error.hint = "the board is at the new place, and closed until this succeeds: coordinate db move --resume"
            raise
        return self.report("moved")

    def _give_time(self, side: Side, fenced_at: datetime, opened_at: datetime) -> None:
        self.added = (opened_at - fenced_at).total_seconds()
        for table, column in holds():
            self.holds += side.shift(table, column, seconds=self.added, later_than=fenced_at)

    def _raise_counters(self, tx: Tx) -> None:
        """Above everything that a row shows: a counter that was set back by hand would mint numbers twice."""
        for table in TABLES:
            for column in table.columns:
                if kind := column.info.get("counter"):
                    tx.run("counter_raise", kind=kind, least=self.target.highest(table, column))

    # --- the way back

    def _give_up(self, number: str, *, lifts: bool) -> bool:
        """Best effort, after a failure: the source is written again, and the target sends back who comes. Whether the
        move is over now. Whoever interrupts this once more only waits for it.
        """
        is_over = False
        with signals.ignored(signals.ENDING), suppress(errors.CoordinateError):
            if lifts:
                self._lift_source(number, MOVING)
            if is_over := self._is_over(number):
                self._shut_target(number)
        return is_over

    def _is_over(self, number: str) -> bool:
        """Whether this move never began or was undone, maybe by somebody who could not shut what was being filled."""
        row = self._source_row()
        return not (_begun(row) and row.move == number)

    def _source_row(self) -> Any:
        with self.source.transaction(writes=False) as tx:
            return tx.one("move_state")

    def _lift_source(self, number: str, before: str, *, gives_time: bool = True) -> bool:
        """Let the source be written again, if this move still stands there; its holds get the time back."""

        def act(tx: Tx) -> bool:
            row, now = tx.one("move_state"), tx.now()
            if not tx.count("move_pass", move=number, before=before, state=STAYED, opened_at=None):
                return False
            assert row is not None
            self.source.open_fence()
            if gives_time:
                self._give_time(self.source, row.fenced_at, now)
            return True

        lifted = _with_writers_stopped(self.source, act, [])
        if lifted:
            self.source.clear_fence()
            with self.source.transaction(writes=False):
                self.inert = tuple(self.source.fences())
        return lifted

    def _shut_target(self, number: str) -> None:
        """Of a move that never opened it: whoever comes there is sent back. What was copied stays, for nobody."""

        def act(tx: Tx) -> None:
            for before in (ARRIVING, COPIED):
                if tx.count("move_pass", move=number, before=before, state=WITHDRAWN, opened_at=None):
                    self.target.raise_fence(sentence(WITHDRAWN, self.from_))

        there = self._target_row()
        if there is not None and there.move == number and self._came_from_here(there):
            _with_writers_stopped(self.target, act, [])
        self._nothing_is_left(number)

    def _open_target(self, number: str) -> bool:
        """For other use: as empty as one that was just made. Whether it was still closed."""

        def act(tx: Tx) -> bool:
            if not tx.count("move_forget", move=number, before=WITHDRAWN):
                return False
            self.target.lift_fence()
            self.target.empty_again()
            return True

        return _with_writers_stopped(self.target, act)

    def _nothing_is_left(self, number: str) -> None:
        """Whoever asks how this move ended need not look at the other side, which may not be there for ever."""
        with suppress(errors.CoordinateError), self.source.transaction(writes=True) as tx:
            tx.run("move_pass", move=number, before=STAYED, state=STAYED, opened_at=tx.now())

    def take_back(self, row: Any, *, named: bool) -> MoveReport:
        try:
            if row.state == MOVING and named:
                self.refuse_another_place(row)
            if row.state == MOVED:
                self._row_there(row)
                self.refuse_itself()
                self._withdraw_target(row)
            lifted = self._lift_source(row.move, row.state)
        except errors.CoordinateError:
            lifted = False
            if not self._is_over(row.move):  # else the place is as another undo left it, or a later move
                raise
        if not lifted:
            return self._was_overtaken(row)
        if row.state == MOVING:
            with suppress(errors.CoordinateError):  # it may be out of reach; it stays closed as it is then
                self._shut_target(row.move)
        else:
            self._nothing_is_left(row.move)
        return self.report("undone")

    def _was_overtaken(self, row: Any) -> MoveReport:
        """What became of a move that stood otherwise a moment ago."""
        now = self._source_row()
        if now is not None and now.state == STAYED:
            return self.report("undone", already=True)
        if _begun(now) and now.move != row.move:
            raise _not_again(now)
        raise errors.Moving("the move went on meanwhile", hint="run it again: it is undone from there", address=self.to)

    def call_off(self, row: Any) -> MoveReport:
        """Of a move that has not fenced the board yet, or whose place did not answer when it was undone."""

        def stop(tx: Tx) -> bool:
            if tx.one("move_state") != row:
                return False
            # A mover that lives fences nothing once the record is not what it wrote.
            since = max(tx.now(), row.fenced_at + timedelta(milliseconds=1))
            tx.run("move_begin", move=row.move, state=STAYED, address=row.address, fenced_at=since)
            return True

        with suppress(errors.NoBoard):
            self._target_row()  # where it does not answer, nothing is done that would look as if all was
        if not _with_writers_stopped(self.source, stop, []):
            return self._was_overtaken(row)
        with suppress(errors.NoBoard):
            self._shut_target(row.move)
        return self.report("undone")

    def clear_what_was_left(self, row: Any) -> MoveReport:
        """A place that a move of this board left closed, which is over, or of which the board lost its record: shut
        for good first; said once more, emptied and opened.
        """
        there = self._target_row()
        if there is None or there.state not in (ARRIVING, COPIED, WITHDRAWN):
            if row is not None and row.state == STAYED and self.to == row.address:
                return self.call_off(row) if row.opened_at is None else self.report("opened", already=True)
            raise errors.InvalidState(
                f"this board is not moving, and no move left anything closed at {self.to}",
                hint="there is nothing to undo",
            )
        is_last = row is not None and there.move == row.move
        if not is_last and there.address != self.from_:
            raise errors.InvalidState(
                f"what is closed at {self.to} comes from another board, {there.address}",
                hint="name that one: coordinate db move --undo --from THAT --to THIS; nothing was changed",
            )
        if there.state == WITHDRAWN:
            return self.report("opened", already=not self._open_target(there.move))
        if is_last:
            return self.call_off(row)
        self._shut_target(there.move)
        return self.report("undone")

    def _opens(self) -> str:
        return f"coordinate db move --undo --from {shlex.quote(self.from_)} --to {shlex.quote(self.to)}"

    def _withdraw_target(self, row: Any) -> None:
        """Close the target for good, if it still is what came: whoever was sent there is sent back."""

        def act(tx: Tx) -> None:
            there = tx.one("move_state")
            if there is None or there.move != row.move:
                raise errors.InvalidState(
                    f"{self.to} holds no board that came from here", hint="name it with --to; nothing was changed"
                )
            if there.state == WITHDRAWN:
                return
            if there.state not in (ARRIVING, COPIED, ARRIVED):
                raise _contradiction(row.state, there.state, self.to)
            self.target.lift_fence()
            if there.state == ARRIVED:
                self._refuse_if_written(there)
            tx.run("move_pass", move=row.move, before=there.state, state=WITHDRAWN, opened_at=there.opened_at)
            self.target.raise_fence(sentence(WITHDRAWN, self.from_))

        _with_writers_stopped(self.target, act)

    def _refuse_if_written(self, there: Any) -> None:
        """Take the time back that holds were given, within the transaction: then the two sides are equal, or not."""
        given = (there.opened_at - there.fenced_at).total_seconds()
        for table, column in holds():
            self.target.shift(table, column, seconds=-given, later_than=there.opened_at)
        with self.source.transaction(writes=False):
            changed = [table.name for table in TABLES if digest(self.source, table) != digest(self.target, table)]
        if changed:
            raise errors.InvalidState(
                f"{self.to} has been written to since the move: {', '.join(changed)}",
                hint="move it back instead: coordinate db move --from NEW --to ANOTHER; nothing was changed",
                tables=changed,
            )

    def _still(self, found: int) -> None:
        """Of two movers one goes on; the other finds that its step is not there any more."""
        if found != 1:
            raise errors.Moving(
                "another move took this over, or undid it",
                hint="let that one end",
                address=self.to,
            )

    def outlook(self) -> MoveReport:
        with self.source.transaction(writes=False):
            rows = sum(self.source.count(table) for table in TABLES)
            stored = self.source.stored()
        seconds = round(rows / ROWS_PER_SECOND, 1)
        return replace(self.report("checked"), rows=rows, bytes=stored, expected_seconds=seconds)

    def report(self, state: str, *, already: bool = False) -> MoveReport:
        return MoveReport(
            state=state,
            source=self.from_,
            target=self.to,
            tables=self.tables,
            rows=sum(each.rows for each in self.tables.values()),
            bytes=sum(each.bytes for each in self.tables.values()),
            copy_seconds=round(self.copy_seconds, 3),
            verify_seconds=round(self.verify_seconds, 3),
            added_seconds=round(self.added, 3),
            holds=self.holds,
            already=already,
            inert=self.inert,
            opens=self._opens() if state == "undone" else "",
        )


def _with_writers_stopped(side: Side, act: Callable[[Tx], R], tables: Sequence[str] = FENCED) -> R:
    """Act while nobody writes to these tables, and no other mover acts. It waits for running writers, and for readers
    where it locks them out, two seconds at a time: others queue up behind it.
    """
    deadline = time.monotonic() + sides.FENCE_SECONDS
    while True:
        stopped = False
        try:
            with side.transaction(writes=True) as tx:
                side.stop_writers(tables)
                stopped = True
                return act(tx)
        except errors.Busy as busy:
            if time.monotonic() > deadline:
                raise side.in_the_way(busy, readers=stopped) from None
        time.sleep(random.uniform(0.2, 1.0))


def _taken(row: Any) -> str:
    """Why a place is not free that a move closed."""
    if row.state == WITHDRAWN:
        said = f"a move from {row.address} was given up here; only that board may move here again, unless it is opened"
    else:
        said = f"a move from {row.address} is filling it; if that one is over"
    return f"{said}: coordinate db move --undo --from {shlex.quote(row.address)} --to the place"


def _contradiction(here: object, there: object, place: str) -> errors.NotABoard:
    return errors.NotABoard(
        f"the records of this move contradict each other: it is {here} here and {there} at {place}",
        hint="a newer coordinate wrote them, or somebody by hand, or one side was restored; nothing was changed",
    )


def _gone(row: Any, said: str) -> errors.InvalidState:
    """The other place of a move that was begun is not there any more."""
    if row.state == MOVING:
        hint = "coordinate db move --undo opens this board again; nothing was changed"
    else:
        hint = (
            "what was written there is nowhere else: bring that database back, from its backup if need be, or name"
            " where it is now with --to; nothing was changed"
        )
    return errors.InvalidState(f"{sentence(row.state, row.address)}, and that is gone: {said}", hint=hint)


def _not_again(row: Any) -> errors.CoordinateError:
    if row.state == MOVED:
        hint = "it is there; what was left unfinished goes on with: coordinate db move --resume"
        return errors.Moved(sentence(MOVED, row.address), hint=hint, address=row.address)
    hint = "if that mover was killed: coordinate db move --resume goes on, coordinate db move --undo gives up"
    return errors.Moving(sentence(MOVING, row.address), hint=hint, address=row.address)
