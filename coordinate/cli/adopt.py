"""Adoption of a board of the kanban tool."""

from __future__ import annotations

import os

from coordinate.cli.declared import argument, command
from coordinate.cli.shared import Call


@command("adopt", example="coordinate db adopt .kanban/kanban.db --db .coordinate/board.db")
@argument("source", metavar="BOARD.db")
def adopt(call: Call, source: str) -> None:
    """Take over a board of the kanban tool, whole or not at all; the file is only read.

    The board it goes to (--db) is made if it is not there, and must hold no task. The answer counts what came over and
    lists what was repaired or left out.
    """
    from coordinate import service

    call.show(service.adopt(os.fsdecode(source.encode("utf-8", "surrogateescape")), call.target()))
