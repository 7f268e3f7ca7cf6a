"""The fence of a board that moves: what stands in its one row, what it tells writers, and who may still come in.

The database itself refuses every change of a fenced board, by triggers that raise the sentence made here, so that
programs of any version are stopped and told. This program reads the sentence back into an error. A call that changed
no row meets no trigger: it looks at the row (`move_state`) before it says that there is nothing to do.
"""

from __future__ import annotations

import re
from typing import Any

from coordinate import errors

# The board that is left: first its writers wait, then they are sent on; or the move was given up.
MOVING, MOVED, STAYED = "moving", "moved", "stayed"
# The board that is made: being filled, filled but not proven or not told of yet, open; or given back by an undo.
ARRIVING, COPIED, ARRIVED, WITHDRAWN = "arriving", "copied", "arrived", "withdrawn"

_SAYS = {
    MOVING: "this board is moving to",
    MOVED: "this board has moved to",
    ARRIVING: "this board is not whole yet, it is being filled from",
    COPIED: "this board is not whole yet, it is being filled from",
    WITHDRAWN: "this board was given up, it has moved back to",
}
_SAID = f"({'|'.join(dict.fromkeys(_SAYS.values()))}) (.+)"
_TRY_AGAIN = "readers still read; try again in a while"


def is_up(state: str) -> bool:
    """Whether a board in this state refuses every change; so does one whose state this program does not know."""
    return state not in (STAYED, ARRIVED)


def sentence(state: str, address: str) -> str:
    """What a fence says to whoever writes; `address` is that of the other side, without any secret."""
    return f"{_SAYS[state]} {address}"


def told(said: str) -> errors.CoordinateError | None:
    """The error that a fence's sentence means; None when a fence did not say it."""
    found = re.match(_SAID, said)
    if found is None:
        return None
    what, address = found.groups()
    state = next(state for state, says in _SAYS.items() if says == what)
    return refusal(state, address)


def refusal(state: str, address: str) -> errors.CoordinateError:
    """`Moving` or `Moved`, for a write to a board in this state; `NotABoard` where nobody can know what it means."""
    if state not in _SAYS:
        return errors.NotABoard(
            f"the board's record of its move says {state!r}, which this program does not know",
            hint="a newer coordinate wrote it, or somebody by hand: install that one, or restore a backup",
        )
    said = sentence(state, address)
    if state in (MOVED, WITHDRAWN):
        return errors.Moved(
            said, hint="nothing was changed; name the new address with --db or $COORDINATE_DB", address=address
        )
    hint = (
        _TRY_AGAIN
        if state == MOVING
        else "try again in a while; whoever moves it finishes with: coordinate db move --resume"
    )
    return errors.Moving(said, hint=hint, address=address)


def stops(row: Any) -> errors.CoordinateError | None:
    """`Moving` or `Moved` when the row says that nobody may write; see `refusal`."""
    return refusal(row.state, row.address) if row is not None and is_up(row.state) else None


def admit(row: Any, where: str, warnings: list[str]) -> None:
    """Whether anybody may even read: a board that is not whole is none, one that moved is how it was then."""
    if row is None or row.state in (MOVING, STAYED, ARRIVED):
        return
    if row.state != MOVED:
        raise refusal(row.state, row.address)
    warning = f"{where} has moved to {row.address}; what is read here is how it was then"
    if warning not in warnings:
        warnings.append(warning)
