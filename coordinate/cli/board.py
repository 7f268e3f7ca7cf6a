"""Boards: titled tables of rows that a human watches."""

from __future__ import annotations

import json
from typing import Any

from coordinate.cli.declared import OneOf, argument, choice, command, option, taking
from coordinate.cli.shared import ASKING, BadUsage, Call, asked, given, read_file
from coordinate.states import ACTION_OWNERS, ROW_STATUSES

FORMAT = """
    \b
    The file is a JSON list of rows, or an object of rows and board_version. A
    row has a label, and what is to change of: status, note, next_step,
    action_owner, impact, next_after, options, context, outcome, response_seq;
    with its revision, unless it is new or says nothing new.
    `[{"label": "Docs"}, {"label": "API", "revision": 2, "status": "done"}]`
    An option is a label, or an object of label, detail and recommended.
"""

title_argument = argument("title", metavar="TITLE|BOARD-ID")
label_argument = argument("label", metavar="LABEL|ROW-ID")
project_option = choice("--project", help="Of which project. Default: default.")
version_option = option("--version", "board_version", type=int, metavar="N", help="The board's revision, as read.")
describing_a_step = taking(
    option("--note", help="Where it stands; in short what is asked."),
    option("--owner", "action_owner", type=OneOf(*ACTION_OWNERS), help="What the human gives."),
    *ASKING,
    option("--outcome", help="What came of the human's last step."),
    option("--response", "response_seq", type=int, metavar="SEQ", help="Which response was acted on."),
)


@command("upsert", example='coordinate board upsert "Release 2" rows.json --version 3', more=FORMAT)
@title_argument
@argument("file", metavar="FILE")
@version_option
@option("--stream", help="Which branch or line of work it is about.")
@project_option
def upsert(call: Call, file: str, board_version: int | None, **wanted: Any) -> None:
    """Write a whole board from a file (- is stdin): its rows in their order. A new board needs no --version.

    What a row leaves out keeps its value; a row that is left out is set aside with its words and steps. Exit 4 when
    somebody changed the board or a row since; the error says the current numbers.
    """
    rows, in_file = _rows_of(read_file(file))
    if board_version is not None and in_file is not None:
        raise BadUsage("give the board's revision once: with --version, or in the file")
    version = in_file if board_version is None else board_version
    with call.board() as board:
        call.show(board.board_upsert(rows=rows, board_version=version, **given(**wanted)))


@command("row", example='coordinate board row "Release 2" Docs --revision 3 --status partial --note "two pages left"')
@title_argument
@label_argument
@option("--revision", "expected_revision", type=int, metavar="N", help="The row's revision, as read.")
@option("--status", type=OneOf(*ROW_STATUSES), help="Where it stands; blocked is the human's turn.")
@describing_a_step
@project_option
def row(call: Call, **wanted: Any) -> None:
    """Write one row; a row or a board that is not there is made, without --revision. What is not given stays.

    --status blocked asks the human: --owner, --impact, --next-step, and --option for a decision or an approval. Any
    other status ends that: --response says which response was acted on (a must if there is one), --outcome what came
    of it. Exit 4 when somebody changed the row, or the human spoke again.
    """
    with call.board() as board:
        call.show(board.board_row(**asked(**wanted)))


@command(
    "advance",
    example='coordinate board advance "Release 2" Key --revision 4 --version 1 --response 1 --owner task'
    ' --note "the key is new" --next-step "publish" --impact "nobody can install it"',
)
@title_argument
@label_argument
@option("--revision", "expected_revision", type=int, required=True, metavar="N", help="The row's, as read.")
@option("--version", "board_version", type=int, required=True, metavar="N", help="The board's, as read.")
@describing_a_step
@project_option
def advance(call: Call, **wanted: Any) -> None:
    """Set the human's next step on a row; the one before is closed and stays readable.

    Needs --note, --next-step, --owner and --impact. Of several at once one wins; the others exit 4, and the error says
    the current numbers.
    """
    for name in ("note", "next_step", "action_owner", "impact"):
        if wanted[name] is None:
            raise BadUsage(f"the next step needs --{name.replace('action_', '').replace('_', '-')}")
    with call.board() as board:
        call.show(board.board_advance(**asked(**wanted)))


@command("get", example='coordinate board get "Release 2" --full')
@title_argument
@option("--full", is_flag=True, help="Also contexts, earlier steps, all words, and rows that were set aside.")
@project_option
def get(call: Call, full: bool, **wanted: Any) -> None:
    """Show a board: its rows in order, what the human is asked and said, and the revisions to show with a write.

    What a row does not say is left out, but for --full.
    """
    from coordinate.cli.output import lean

    with call.board() as board:
        view = board.board_get(full=full, **given(**wanted))
        call.show(view if full else lean(view))


@command("list", example="coordinate board list --archived")
@choice("--project", help="Only of this project.")
@option("--archived", is_flag=True, help="Also those that are archived.")
@option("--after", metavar="BOARD-N", help="Go on behind this board.")
@option("--limit", type=int, help="At most so many.")
def list_boards(call: Call, archived: bool, **wanted: Any) -> None:
    """List boards with their progress, the latest change first."""
    with call.board() as board:
        call.show(board.board_list(archived=archived, **given(**wanted)))


@command("annotate", example='coordinate board annotate "Release 2" Docs "say it shorter"')
@title_argument
@label_argument
@argument("text", metavar="TEXT")
@project_option
def annotate(call: Call, **wanted: Any) -> None:
    """Say something beside a row; every session that polls is handed it once. It changes no revision."""
    with call.board() as board:
        call.show(board.board_annotate(**given(**wanted)))


@command("archive", example='coordinate board archive "Release 2"')
@title_argument
@version_option
@project_option
def archive(call: Call, **wanted: Any) -> None:
    """Take a board off the list. Nothing of it is lost, its asks stay, and a later write brings it back."""
    with call.board() as board:
        call.show(board.board_archive(**given(**wanted)))


@command("unarchive", example='coordinate board unarchive "Release 2"')
@title_argument
@version_option
@project_option
def unarchive(call: Call, **wanted: Any) -> None:
    """Bring an archived board back."""
    with call.board() as board:
        call.show(board.board_unarchive(**given(**wanted)))


def _rows_of(text: str) -> tuple[Any, int | None]:
    """The rows of a file, and the board's revision if it names one."""
    from coordinate import errors

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise errors.InvalidInput(f"the file is not JSON: {wrong}", field="rows") from None
    if not isinstance(found, dict):
        return found, None
    if unknown := found.keys() - {"rows", "board_version"}:
        raise errors.InvalidInput(f"a board's file has rows and board_version, not {min(unknown)!r}", field="rows")
    return found.get("rows", []), found.get("board_version")
