"""Sessions and what they hold, for tests of the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.records import Lease, Scopes

Enter = Callable[..., Coordinator]


@pytest.fixture
def enter(board_url: str) -> Iterator[Enter]:
    """Begin a session of an agent, or with `session` go on in one as the next process of it; closed at the end."""
    with ExitStack() as stack:

        def begin(agent: str, *, session: str | None = None, **given: Any) -> Coordinator:
            if session is None:
                with coordinate.connect(board_url, agent=agent) as door:
                    session = door.register(name=agent, **given).id
            return stack.enter_context(coordinate.connect(board_url, agent=agent, session=session))

        yield begin


def held(board: Coordinator) -> list[tuple[str, str]]:
    """Who holds which scope or lock, live ones only."""
    return sorted((lease.agent, lease.resource) for lease in board.list_leases(limit=1000))


def one(answer: Scopes) -> Lease:
    """The lease of a claim of one pattern that was granted."""
    assert answer.granted, answer.conflicts
    (lease,) = answer.leases
    return lease
