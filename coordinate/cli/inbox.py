"""The inbox: what agents ask of humans, what humans say, and what agents do with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from coordinate.cli.declared import DURATION, MOMENT, OneOf, argument, command, option, taking
from coordinate.cli.shared import ASKING, BadUsage, Call, Exit, asked, given
from coordinate.states import ACTION_OWNERS, ASK_KINDS, ASK_STATES, RESPONSE_KINDS

if TYPE_CHECKING:
    from coordinate.records import Ask
    from coordinate.service import Coordinator

WATCH_SECONDS = 2.0

ask_argument = argument("ask", metavar="ASK-ID")
project_option = option("--project", help="Only of this project.")
limit_option = option("--limit", type=int, help="At most so many.")
full_option = option("--full", is_flag=True, help="Again what the session was handed: context, annotations.")
reason_option = option("--reason", help="Why.")
kind_option = option("--kind", type=OneOf(*RESPONSE_KINDS), help="Default: answer.")
choice_option = option("--choice", metavar="LABEL", help="The option that was chosen.")
direction_option = option("--context", help="Further direction.")
page_option = option("--after", type=int, metavar="NUMBER", help="Go on behind the ask of this number.")
in_words = taking(option("--detail", help="The ask in short."), *ASKING)
naming_the_deed = taking(
    option("--client", "client_id", metavar="ID", help="Which client does it; with these two safe to retry."),
    option("--client-seq", type=int, metavar="N", help="A number that rises with each deed of the client."),
    option("--action", "action_id", metavar="ID", help="Which deed; the same again does nothing."),
)


# --- what an agent asks -----------------------------------------------------------------------------------------------


@command(
    "ask",
    example='coordinate inbox ask "Which colour?" --owner decision --option red --option blue'
    ' --impact "the logo waits"',
)
@argument("title", metavar="TITLE")
@option("--owner", "action_owner", type=OneOf(*ACTION_OWNERS), help="What the human gives.")
@option("--kind", type=OneOf(*ASK_KINDS), help="Default: question. A note or a milestone asks nothing.")
@in_words
@option("--task", metavar="TASK-ID@ATTEMPT", help="The task that it is about; to block it, by its handle.")
@option("--blocking", is_flag=True, help="The task waits for it: BLOCKED, without a lease, until the response.")
@option("--supersedes", metavar="ASK-ID", help="The ask in whose place it comes, as the next step.")
@option("--outcome", help="With --supersedes: what came of the response to that ask.")
@option("--dedup-key", help="A retry with the same key answers the ask that lives.")
@option("--timeout", "timeout_seconds", type=DURATION, help="Unanswered for so long it expires: 2h, 3d.")
@option("--project", help="Default: the task's, else default.")
@option("--stream", help="Which branch or line of work it comes from.")
def ask(call: Call, blocking: bool, **wanted: Any) -> None:
    """Ask a human for a decision, an approval, or a task (a deed); or tell them a note or a milestone.

    Answers the ask with its "id". One live ask in a place: exit 3 names the one that is there. What a board's row asks
    is asked on the board: `coordinate board row TITLE LABEL --status blocked`.
    """
    with call.board() as board:
        call.show(board.ask(blocking=blocking, **asked(**wanted)))


@command("revise", example='coordinate inbox revise ASK-12 --detail "for the dark theme only"')
@ask_argument
@option("--title", help="The ask in one line.")
@in_words
@option("--timeout", "timeout_seconds", type=DURATION, help="From now on: unanswered for so long it expires.")
@option("--expected-revision", type=int, metavar="N", help="Only if it stands at this revision still.")
def revise(call: Call, ask: str, **wanted: Any) -> None:
    """Put an ask in other words; what is left away stays. What was answered before counts as outdated."""
    with call.board() as board:
        call.show(board.revise(ask=ask, **asked(**wanted)))


@command("withdraw", example='coordinate inbox withdraw ASK-12 --reason "found it in the docs"')
@ask_argument
@reason_option
def withdraw(call: Call, ask: str, **wanted: Any) -> None:
    """Take your ask back; a task that waited for it goes back into the queue."""
    with call.board() as board:
        call.show(board.withdraw(ask=ask, **given(**wanted)))


@command("wait", example="coordinate inbox wait ASK-12 --timeout 50s")
@ask_argument
@option("--timeout", "wait", type=DURATION, help="How long: 50s, 10m, 1d. Default: an hour.")
@option("--after", type=int, metavar="SEQ", help="Only for a response later than this one.")
@full_option
def wait(call: Call, ask: str, wait: int | None, full: bool, after: int | None) -> None:
    """Wait for the response to an ask, or its end; it has then been handed to you.

    Exit 8: waited in vain; 7: the board has moved.
    """
    with call.board() as board:
        found = board.wait_ask(ask=ask, full=full, wait=3_600 if wait is None else wait, **given(after=after))
        call.show({} if found is None else found)
    if found is None:
        raise Exit(8)


# --- what a human does ------------------------------------------------------------------------------------------------


@command("respond", example='coordinate inbox respond ASK-12 --choice blue "the darker one"')
@ask_argument
@argument("text", required=False)
@kind_option
@choice_option
@direction_option
@option("--revision", type=int, metavar="N", help="Which revision of the ask you looked at.")
@option("--withdraw", "takes_back", is_flag=True, help="Take back the response, if nobody was handed it yet.")
@option("--response", "response_seq", type=int, metavar="N", help="With --withdraw: only if this one stands.")
@naming_the_deed
def respond(
    call: Call,
    ask: str,
    text: str | None,
    takes_back: bool,
    response_seq: int | None,
    client_id: str | None,
    client_seq: int | None,
    action_id: str | None,
    **said: Any,
) -> None:
    """Respond to an ask, as the human: an answer, clarify, decline, or handled (the deed is done).

    It replaces what you said before. An agent records what it heard in a chat with `inbox answer`.
    """
    deed = given(client_id=client_id, client_seq=client_seq, action_id=action_id)
    if takes_back and (text or given(**said)):
        raise BadUsage("--withdraw takes a response back; it goes with nothing else")
    if response_seq is not None and not takes_back:
        raise BadUsage("--response names what --withdraw takes back")
    with call.board() as board:
        if takes_back:
            call.show(board.withdraw_response(ask=ask, **given(response_seq=response_seq), **deed))
        else:
            call.show(board.respond(ask=ask, **given(text=text, **said), **deed))


@command("snooze", example="coordinate inbox snooze ASK-12 --for 2h")
@ask_argument
@option("--until", type=MOMENT, help="2030-01-31T12:00:00Z")
@option("--for", "seconds", type=DURATION, help="30m, 2h, 3d.")
def snooze(call: Call, ask: str, until: datetime | None, seconds: int | None) -> None:
    """Put an ask out of sight for a while; a response ends that, and so does `inbox wake`."""
    if (until is None) == (seconds is None):
        raise BadUsage("say until when: --until or --for")
    with call.board() as board:
        try:
            until = until or board.now() + timedelta(seconds=seconds or 0)
        except OverflowError:
            raise BadUsage("--for reaches beyond the calendar") from None
        call.show(board.snooze(ask=ask, until=until))


@command("wake", example="coordinate inbox wake ASK-12")
@ask_argument
def wake(call: Call, ask: str) -> None:
    """Bring a snoozed ask back into sight."""
    with call.board() as board:
        call.show(board.wake(ask=ask))


@command("dismiss", example='coordinate inbox dismiss ASK-12 --reason "not now"')
@ask_argument
@reason_option
def dismiss(call: Call, ask: str, **wanted: Any) -> None:
    """Close an open ask without an answer; a task that waited for it goes back into the queue."""
    with call.board() as board:
        call.show(board.dismiss(ask=ask, **given(**wanted)))


@command("annotate", example='coordinate inbox annotate ASK-12 "mind the budget"')
@ask_argument
@argument("text")
def annotate(call: Call, ask: str, text: str) -> None:
    """Say something beside an ask, a note or a milestone too: every session is handed it once."""
    with call.board() as board:
        call.show(board.annotate(ask=ask, text=text))


@command("unannotate", example="coordinate inbox unannotate ANN-3")
@argument("annotation", metavar="ANN-ID")
def unannotate(call: Call, annotation: str) -> None:
    """Take an annotation back, if nobody was handed it yet."""
    with call.board() as board:
        call.show(board.withdraw_annotation(annotation=annotation))


@command("watch", example="coordinate inbox watch --project api")
@project_option
@option("--once", is_flag=True, help="What needs you now, and no more.")
def watch(call: Call, project: str | None, once: bool) -> None:
    """Print what needs the human, or is told them, one JSON document a line, as it comes, until interrupted (exit 0).

    Exit 7: the board has moved.

    For notifiers: each ask comes once, and again when it is put in other words or needs you anew. What agents tell has
    the kind note or done.
    """
    seen: dict[str, int] = {}
    with call.board() as board:
        try:
            while True:
                needed = _all_pages(board, attention=True, project=project)
                needed += _all_pages(board, told=True, project=project)
                call.show_lines(each for each in needed if seen.get(each.id) != each.revision)
                seen = {each.id: each.revision for each in needed}
                if once:
                    return
                board.database.perform(lambda tx: tx.expects(), writes=False)
                board.database.wait(WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _all_pages(board: Coordinator, **wanted: Any) -> list[Ask]:
    found: list[Ask] = []
    while page := board.list_asks(after=found[-1].number if found else 0, **wanted):
        found += page
    return found


# --- what an agent does with it ---------------------------------------------------------------------------------------


@command("pending", example="coordinate inbox pending")
@project_option
@full_option
@page_option
@option("--after-annotation", type=int, metavar="NUMBER", help="Go on behind the annotation of this number.")
@limit_option
def pending(call: Call, full: bool, **wanted: Any) -> None:
    """Collect what humans have said: every response until it is acknowledged, and annotations once."""
    with call.board() as board:
        call.show(board.pending(full=full, **given(**wanted)))


@command("take", example="coordinate inbox take ASK-12 --for 30m")
@ask_argument
@option("--for", "seconds", type=DURATION, help="How long others leave it to you. Default: 15m.")
def take(call: Call, ask: str, **wanted: Any) -> None:
    """Say that you act on a response, so that no other agent does; exit 3 names who does already."""
    with call.board() as board:
        call.show(board.take(ask=ask, **given(**wanted)))


@command("answer", example='coordinate inbox answer ASK-12 "blue, they said in the chat"')
@ask_argument
@argument("text", required=False)
@kind_option
@choice_option
@direction_option
@naming_the_deed
def answer(call: Call, ask: str, **said: Any) -> None:
    """Record what the human said in chat; exit 4 with the waiting text when they answered in the inbox."""
    with call.board() as board:
        call.show(board.answer(ask=ask, **given(**said)))


@command("ack", example='coordinate inbox ack ASK-12 --response 1 --outcome "the logo is blue"')
@argument("ask", metavar="ASK-ID|ANN-ID")
@option("--response", "response_seq", type=int, metavar="SEQ", help="Which response you acted on.")
@option("--outcome", help="In one line what came of it; needed for a decision or an approval.")
def ack(call: Call, ask: str, response_seq: int | None, outcome: str | None) -> None:
    """Say that you have finished with a response, or have taken note of an annotation.

    Exit 4: the human spoke again since that response; collect what they said.
    """
    with call.board() as board:
        if ask.strip().upper().startswith("ANN-"):
            if response_seq is not None or outcome is not None:
                raise BadUsage("an annotation is acknowledged alone")
            call.show(board.acknowledge_annotation(annotation=ask))
            return
        if response_seq is None:
            raise BadUsage("name the response that you acted on: --response SEQ")
        call.show(board.acknowledge(ask=ask, response_seq=response_seq, **given(outcome=outcome)))


# --- look -------------------------------------------------------------------------------------------------------------


@command("list", example="coordinate inbox list --attention --format table")
@option("--attention", is_flag=True, help="What needs the human now.")
@option("--told", is_flag=True, help="What agents tell: notes and milestones that nobody has dismissed.")
@option("--unhandled", is_flag=True, help="What humans have finished with, and agents have not.")
@option("--snoozed", is_flag=True, help="What sleeps.")
@option("--state", type=OneOf(*ASK_STATES), help="Only those.")
@option("--kind", type=OneOf(*ASK_KINDS), help="Only those.")
@project_option
@option("--of", "asked_by", metavar="NAME", help="Only what this agent asked.")
@page_option
@limit_option
def list_asks(call: Call, **wanted: Any) -> None:
    """List asks by number; `inbox show` has their context too."""
    with call.board() as board:
        call.show(board.list_asks(**given(**wanted)), nothing="(nothing is asked)")


@command("search", example='coordinate inbox search "colour"')
@argument("query", metavar="TEXT")
@project_option
@page_option
@limit_option
def search(call: Call, **wanted: Any) -> None:
    """List asks whose words, or whose responses' words, hold a text, in any case."""
    with call.board() as board:
        call.show(board.list_asks(**given(**wanted)), nothing="(nothing found)")


@command("show", example="coordinate inbox show ASK-12")
@ask_argument
def show(call: Call, ask: str) -> None:
    """Show all about an ask: responses, who was handed them, what stands beside it, earlier asks of its place."""
    with call.board() as board:
        call.show(board.show_ask(ask=ask))
