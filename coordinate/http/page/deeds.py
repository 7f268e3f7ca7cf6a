"""What a person does on the page: a form names the operation, and the one way in performs it as the API does.

A browser without script is led back to where it was; the script asks for JSON and stays where it is. A refusal keeps
the words that were typed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from coordinate import inputs
from coordinate.errors import CoordinateError, InvalidInput, NotFound, OutdatedRevision
from coordinate.http.gate import caller_of, parse_form, refused, wants_page
from coordinate.http.page.answers import own, problem, told
from coordinate.http.page.words import seen
from coordinate.mcp.calls import Calls
from coordinate.operations import operations, refusal
from coordinate.records import Cancelled, Responded
from coordinate.records import Response as Said
from coordinate.service import Coordinator

Form = dict[str, str]
Deed = Callable[[Coordinator, Form], tuple[str, dict[str, Any], str]]

SLEEP_SECONDS_MAX = 366 * 86_400
WORDS_MAX = 300
STRANDED_MAX = 5

logger = logging.getLogger(__name__)


def routes() -> list[BaseRoute]:
    return [Route("/do/{deed}", do, methods=["POST"])]


async def do(request: Request) -> Response:
    """Perform a deed in the name of whoever signed in."""
    calls: Calls = request.app.state.calls
    form = {name: value.replace("\r\n", "\n") for name, value in parse_form(await request.body()).items()}
    quiet = not wants_page(request.headers)
    back = own(form.get("back", ""))
    try:
        caller = caller_of(request)
        deed = DEEDS.get(request.path_params["deed"])
        if deed is None:
            raise NotFound("there is no such deed", hint="load the page again")
        board = await calls.run(partial(calls.board.acting, agent=caller.agent))
        name, arguments, said = await calls.run(partial(deed, board, form))
        done = await calls.perform(operations()[name], board, caller, arguments)
    except Exception as error:
        if not isinstance(error, CoordinateError):
            logger.exception("%s failed", request.url.path)
        if not quiet:
            return problem(request, error, typed=form.get("text", ""), back=back)
        return refused(error) if isinstance(error, CoordinateError) else JSONResponse(refusal(error), 500)
    notice = _to_know(done, form, caller.agent)
    if quiet:
        seq = done.response.seq if isinstance(done, Responded) and done.response else None
        return JSONResponse({"said": said, "notice": notice, "response_seq": seq})
    return told(said, notice, back=back) if notice else RedirectResponse(back, 303)


def _to_know(done: object, form: Form, me: str) -> str:
    """What a person could not see when they did it: that another was first, other words, whom it leaves waiting."""
    if isinstance(done, Cancelled) and done.stranded:
        more = len(done.stranded) - STRANDED_MAX + done.more_stranded
        named = ", ".join(done.stranded[:STRANDED_MAX]) + (f" and {more} more" if more > 0 else "")
        return f"What waits for it never becomes ready now: {named}."
    if not isinstance(done, Responded) or done.response is None:
        return ""
    lines, stood = [], done.replaced
    if stood is not None and stood.said_by != me and str(stood.seq) != form.get("response_seq"):
        lines.append(f"{stood.said_by} was first, and said: {_words(stood)}.")
        lines.append(f"Yours stands now: {_words(done.response)}. Both are kept.")
    if done.response.outdated:
        lines.append(f"{done.ask.id} was put in other words meanwhile: what you said is marked as said to the earlier.")
    return " ".join(lines)


def _words(said: Said) -> str:
    words = ", ".join(part for part in (said.choice, said.text) if part)[:WORDS_MAX]
    return f"\u201c{seen(words)}\u201d" if words else said.kind


def _need(form: Form, name: str) -> str:
    if name not in form:
        raise InvalidInput(f"the form lacks {name}", hint="load the page again", field=name)
    return form[name]


def _number(form: Form, name: str) -> int:
    """What the form was written for, as the page put it there."""
    return inputs.parse_integer(_need(form, name), name, hint="load the page again")


# --- asks -------------------------------------------------------------------------------------------------------------

_SAID = {"answer": "Answered", "clarify": "Asked back on", "decline": "Declined", "handled": "Done your part of"}


def respond(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask, kind = _need(form, "ask"), form.get("kind", "answer")
    given: dict[str, Any] = {
        "ask": ask,
        "kind": kind,
        "text": form.get("text", ""),
        "choice": form.get("choice") or None,
    }
    if (revision := form.get("revision", "")).isdecimal() and len(revision) < 19:
        given["revision"] = int(revision)
    return "respond", given, f"{_SAID.get(kind, kind)} {ask}"


def undo(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    """The one that was shown, and no other."""
    ask = _need(form, "ask")
    given = {"ask": ask, "response_seq": _number(form, "response_seq")}
    return "withdraw_response", given, f"Took back what was said on {ask}"


def snooze(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask, hint = _need(form, "ask"), "choose one of the times"
    seconds = inputs.parse_integer(_need(form, "seconds"), "seconds", most=SLEEP_SECONDS_MAX, hint=hint)
    until = board.now() + timedelta(seconds=seconds)
    return "snooze", {"ask": ask, "until": until.isoformat()}, f"{ask} sleeps"


def wake(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "wake", {"ask": ask}, f"{ask} is awake"


def dismiss(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "dismiss", {"ask": ask, "reason": form.get("text", "")}, f"Dismissed {ask}"


def annotate(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "annotate", {"ask": ask, "text": form.get("text", "")}, f"Said beside {ask}"


# --- tasks, and words beside rows -------------------------------------------------------------------------------------


def _on_task(operation: str, words: str, said: str, *, as_shown: bool = False) -> Deed:
    """A deed on a task that takes a person's words, which the operation calls `words`; one that judges what the task
    says is done to what was shown, and to nothing that came since (`as_shown`)."""

    def deed(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
        task = _need(form, "task")
        given: dict[str, Any] = {"task": task, words: form.get("text", "")}
        if as_shown:
            given["expected_revision"] = _number(form, "expected_revision")
        return operation, given, said.format(task)

    return deed


def edit(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    """Only what was changed in the form, and never over what another changed since it was shown."""
    task = _need(form, "task")
    now = board.view(task=task, notes=0, history=0).task
    given: dict[str, Any] = {"task": task, "expected_revision": now.revision}
    for name in ("title", "priority"):
        was, wanted = _need(form, f"was_{name}"), _need(form, name).strip()
        if wanted == was:
            continue
        if str(getattr(now, name)) != was:
            said = f"the {name} of {task} was changed meanwhile, to {getattr(now, name)}"
            raise OutdatedRevision(said, hint="look at it again, and say it anew", task_id=task, revision=now.revision)
        given[name] = wanted
    if "priority" in given:
        hint = "lower is sooner"
        given["priority"] = inputs.parse_integer(given["priority"], "priority", most=99_999_999, hint=hint)
    return "edit", given, f"Changed {task}"


def cancel(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    """Whoever waits for it or worked on it reads the reason."""
    if not form.get("text", "").strip():
        said = f"{_need(form, 'task')} is not cancelled without a reason"
        raise InvalidInput(said, hint="say why first", field="text")
    return _on_task("cancel", "reason", "Cancelled {}", as_shown=True)(board, form)


def beside(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    row = {name: _need(form, name) for name in ("title", "project", "label")}
    return "board_annotate", {**row, "text": form.get("text", "")}, "Said beside the row"


DEEDS: dict[str, Deed] = {
    "respond": respond,
    "undo": undo,
    "snooze": snooze,
    "wake": wake,
    "dismiss": dismiss,
    "annotate": annotate,
    "comment": _on_task("comment", "text", "Noted on {}"),
    "approve": _on_task("approve", "note", "Approved {}", as_shown=True),
    "reject": _on_task("reject", "reason", "Sent {} back to the queue", as_shown=True),
    "unblock": _on_task("unblock", "note", "{} is back in the queue", as_shown=True),
    "cancel": cancel,
    "reopen": _on_task("reopen", "reason", "{} is back in the queue", as_shown=True),
    "edit": edit,
    "beside": beside,
}
