"""What stands before every request: its host, its origin, who it is from, how much and how often.

A browser that visits a foreign page can reach a server on this machine; so the Host must be ours to the letter, an
Origin that is sent must be ours, and whoever comes with a cookie shows a second proof with everything that changes
something. A link from elsewhere opens a view of the page, and nothing else. Who calls is what a token says. The gate
lies around the application: no route can stand beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinate.errors import Busy, CoordinateError, Fact, NotAuthenticated
from coordinate.frozen import dataclass
from coordinate.http.signins import SignIns
from coordinate.mcp.calls import Calls
from coordinate.operations import Caller
from coordinate.records import Token

logger = logging.getLogger(__name__)

RECHECK_SECONDS = 5.0
# How many requests and streams of one token are under way at once.
AT_ONCE_MAX = 500
BODY_MAX = 4 * 1024 * 1024
# How much a form of the page may say, in how many fields: reading more takes time that all others wait.
FORM_MAX, FIELDS_MAX = 128 * 1024, 50
# How much somebody may say, in a body or an address, before it is known who that is.
STRANGER_MAX = 16 * 1024
# A body, or what is very long of an answer, counts as one request more for each so many bytes: all others wait while it
# is read or written. Nobody waits longer than so many seconds for that.
BYTES_OF_ONE, ANSWER_FREE, DEBT_SECONDS = 64 * 1024, 1024 * 1024, 10
# On how many threads secrets are looked up that were never found good here, how many may wait for that, and how many
# that were found good are remembered (as hashes, and only to wait no longer than needed: each is looked up each time).
STRANGERS_AT_ONCE, STRANGERS_WAITING, FOUND_GOOD_MAX = 2, 1_000, 10_000
# How many callers are counted at a time.
BUCKETS_MAX = 10_000
SAFE = ("GET", "HEAD")
METHODS = (*SAFE, "POST", "DELETE")
# What anybody may ask: whether the server lives, and where to sign in.
OPEN = ("/healthz", "/enter", "/page.css", "/page.js", "/page.svg")
# What a person may be led to by a link: it only shows something.
VIEWS = ("/", "/asks", "/boards", "/board", "/tasks", "/who", "/log", "/charts")
VIEWS_WITHIN = ("/asks/", "/tasks/")
# Where its forms go.
DEEDS = "/do/"
FOREIGN = "requests of other sites are not served"
ALONE = "links of other sites may open the page's views; for anything else open the address in a window of its own"

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with that a browser says no Origin when it sends a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Rules:
    """Which names the server answers to (`name:port`), over which scheme, and how many requests a second one caller
    may make. `local` is the secret of whoever started it, who needs no token; '' is nobody. `kept` is the file in which
    sign-ins outlast the process, those of the owner as long as the server is one of the same `board`."""

    hosts: frozenset[str]
    scheme: str = "http"
    rate: float = 200.0
    local: str = ""
    owner: str = ""
    port: int = 0
    kept: Path | None = None
    board: str = ""

    @property
    def cookie(self) -> str:
        """What a browser's cookie is called: boards on one machine leave each other's alone."""
        return f"{'__Host-' if self.scheme == 'https' else ''}coordinate_{self.port}"


# Answers with what a form said: why it was turned away, where it went, its fields, and the proof that lets it in, which
# is '' for whoever is signed out.
OnceMore = Callable[[CoordinateError, str, dict[str, str], str], Response]


class Refused(CoordinateError):
    """The gate does not let a request through."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", **facts: Fact) -> None:
        super().__init__(message, hint=hint, **facts)
        self.status, self.shown = status, code


def csrf_token(request: Request) -> str:
    """The second proof of a browser that signed in, for a hidden field `csrf` or the header `X-CSRF-Token`; '' for
    whoever shows a token."""
    return str(request.scope["state"]["proof"])


def caller_of(request: Request) -> Caller:
    """Who calls, as the gate found out."""
    found = request.scope["state"]["caller"]
    assert isinstance(found, Caller)
    return found


class Gate:
    """An ASGI application around another. `once_more` answers a browser whose form was turned away."""

    def __init__(self, app: ASGIApp, calls: Calls, rules: Rules, once_more: OnceMore) -> None:
        self.app, self.calls, self.rules, self.once_more = app, calls, rules, once_more
        self.rates = Rates(rules.rate)
        self.answered: dict[int, int] = {}
        self.sign_ins = SignIns(rules.kept, rules.local, f"{rules.owner} of {rules.board}")
        self._under_way: dict[anyio.CancelScope, tuple[Caller, Callable[[], str]]] = {}
        self._at_once: Counter[int | None] = Counter()
        self._strangers = anyio.CapacityLimiter(STRANGERS_AT_ONCE)
        self._found_good: dict[bytes, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websocket is served here
        scope.setdefault("state", {})
        scope["scheme"] = self.rules.scheme  # as clients see it, also through a proxy
        watched = partial(self._sent, scope, send)
        try:
            await self._answer(scope, receive, watched)
        except asyncio.CancelledError:  # the server ends, and waits no longer
            if scope["state"].get("answering"):
                raise
            said, hint = "the server ended before this was done", "look whether it was done, and ask again"
            await refused(Busy(said, hint=hint))(scope, receive, watched)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            receive = await self._let_in(scope, receive)
        except CoordinateError as error:
            await (await self._turned_away(scope, receive, error))(scope, receive, send)
            return
        if "caller" in scope["state"]:
            await self._serve(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _turned_away(self, scope: Scope, receive: Receive, error: CoordinateError) -> Response:
        """Who comes with a browser, for a page, and has not signed in is shown the door; what a form of the page said
        is there to be sent again. Others get the refusal."""
        headers, out = Headers(scope=scope), isinstance(error, NotAuthenticated)
        if out and wants_page(headers) and scope["method"] in SAFE:
            return RedirectResponse(_door_before(scope), 303)
        unproved = isinstance(error, Refused) and error.shown == "csrf"
        if not (wants_page(headers) and scope["path"].startswith(DEEDS) and (out or unproved)):
            return refused(error)
        try:
            body = (await _read(headers, receive, FORM_MAX))[0] if out else scope["state"]["body"]
            proof = "" if out else scope["state"]["proof"]
            return await self.calls.run(lambda: self.once_more(error, scope["path"], parse_form(body), proof))
        except Refused as more:
            return refused(more)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve whoever is known, for as long as he is."""
        caller: Caller = scope["state"]["caller"]
        if self._at_once[caller.token] >= AT_ONCE_MAX:
            said = f"{AT_ONCE_MAX} requests of one token are under way"
            await refused(Refused(429, "too_many_requests", said, "wait until some have ended"))(scope, receive, send)
            return
        self._at_once[caller.token] += 1
        with anyio.CancelScope() as under_way:
            self._under_way[under_way] = caller, scope["state"]["secret"]
            try:
                await self.app(scope, receive, send)
            finally:
                del self._under_way[under_way]
                self._at_once[caller.token] -= 1
        if not under_way.cancelled_caught:
            return
        if scope["state"].get("answering"):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await refused(NotAuthenticated("the token has ended", hint="ask for another"))(scope, receive, send)

    async def watch(self) -> None:
        """End what is under way, a stream or a wait, for whoever signed out or whose token has ended."""
        while True:
            await anyio.sleep(RECHECK_SECONDS)
            lives: dict[str, bool] = {}
            for under_way, (caller, shown) in list(self._under_way.items()):
                secret = shown()
                if secret not in lives:
                    lives[secret] = await self._lives(secret)
                if secret and not lives[secret] and caller.token is not None:
                    self.calls.ended.add(caller.token)
                if not lives[secret] and under_way in self._under_way:
                    under_way.cancel()

    async def _lives(self, secret: str) -> bool:
        try:
            await self.token(secret)
        except NotAuthenticated:
            return False
        except Exception:  # the board is busy or away, and a token has not ended by that
            return True
        return True

    async def _sent(self, scope: Scope, send: Send, message: Message) -> None:
        if message["type"] == "http.response.start":
            scope["state"]["answering"] = True
            status = int(message["status"])
            self.answered[status] = self.answered.get(status, 0) + 1
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if "server" in headers:
                del headers["server"]
        elif "caller" in scope["state"]:
            beyond = max(0, len(message.get("body", b"")) - ANSWER_FREE)
            self.rates.give_back(_bucket(scope), -(beyond // BYTES_OF_ONE))
        await send(message)

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        self._check_names(scope, headers)
        if scope["method"] not in METHODS:
            said = f"{scope['method']} is not served here"
            raise Refused(405, "method_not_allowed", said, f"use {', '.join(METHODS)}")
        sign_in = "" if "authorization" in headers else Request(scope).cookies.get(self.rules.cookie, "")
        stranger = scope["path"] in OPEN
        if not stranger:
            shown = partial(self.sign_ins.secret, sign_in) if sign_in else partial(_bearer, headers)
            caller = self._caller(await self.admit(shown(), address_of(scope)))
            proof = self.sign_ins.proof(sign_in) if sign_in else ""
            scope["state"] |= {"caller": caller, "secret": shown, "sign_in": sign_in, "proof": proof}
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=str(caller.token), scopes=[caller.role]))
        who, most = _bucket(scope), STRANGER_MAX if stranger else BODY_MAX
        size = _declared(headers, most)
        self.rates.take(who, cost=1 + size // BYTES_OF_ONE)
        if stranger and len(scope["query_string"]) > STRANGER_MAX:
            raise _too_large(STRANGER_MAX)
        body, receive = await _read(headers, receive, most)
        self.rates.give_back(who, (size - len(body)) // BYTES_OF_ONE)
        if sign_in and scope["method"] not in SAFE and not stranger:
            scope["state"]["body"] = body
            self._check_proof(headers, scope["state"]["proof"], body)
        return receive

    def _check_names(self, scope: Scope, headers: Headers) -> None:
        """Host, Origin and where a browser says that the request comes from."""
        host = headers.getlist("host")
        if len(host) != 1 or host[0].lower() not in self.rules.hosts:
            raise Refused(
                403, "foreign_host", "this server does not go by that name", "use the address that it printed"
            )
        for origin in headers.getlist("origin"):
            if origin.lower() not in {f"{self.rules.scheme}://{name}" for name in self.rules.hosts}:
                raise Refused(403, "foreign_origin", FOREIGN, ALONE)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _follows_link(scope, headers):
            raise Refused(403, "foreign_origin", FOREIGN, ALONE)

    async def admit(self, secret: str, address: str) -> Token | None:
        """Which token is shown by somebody who is not known yet; whoever shows no good one may ask a tenth as often."""
        try:
            return await self.token(secret)
        except NotAuthenticated:
            self.rates.take(f"stranger {address}", share=0.1)
            raise
        except CoordinateError as error:
            raise unsaid(error) from None

    def _caller(self, token: Token | None) -> Caller:
        if token is None:
            return Caller(self.rules.owner, "human", "admin")
        return Caller(token.agent, token.kind, token.role, token.id)

    async def token(self, secret: str) -> Token | None:
        """Which token it is, or None for the owner's own secret. Raises `NotAuthenticated`."""
        if not secret:
            raise NotAuthenticated(
                "no token is shown", hint="send Authorization: Bearer TOKEN; coordinate token create makes one"
            )
        if self.rules.local and hmac.compare_digest(secret.encode(), self.rules.local.encode()):
            return None
        name = hashlib.sha256(secret.encode("utf-8", "replace")).digest()
        apart = None if name in self._found_good else self._strangers
        if apart is not None and apart.statistics().tasks_waiting >= STRANGERS_WAITING:
            raise _too_many()
        found = await self.calls.run(partial(self.calls.board.authenticate, secret=secret), apart=apart)
        self.calls.ended.discard(found.id)  # a restore may bring one back
        self._found_good[name] = None
        if len(self._found_good) > FOUND_GOOD_MAX:
            del self._found_good[next(iter(self._found_good))]
        return found

    def _check_proof(self, headers: Headers, proof: str, body: bytes) -> None:
        """A cookie comes along by itself, also with what a foreign page sends; these two do not."""
        if not headers.getlist("origin"):
            said = "a browser's request that changes something must name its origin"
            raise Refused(403, "foreign_origin", said, "send the header Origin, as browsers do")
        shown = headers.get("x-csrf-token", "")
        if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            shown = shown or parse_form(body).get("csrf", "")
        if not hmac.compare_digest(shown.encode(), proof.encode()):
            raise Refused(403, "csrf", "the form's proof is missing or of another session", "load the page again")


class Rates:
    """How often each may call: a bucket that fills evenly and holds two seconds' worth."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str, *, share: float = 1.0, cost: int = 1) -> None:
        """Take one, or what costs more, for which the bucket may be in debt; raises when there is none."""
        now, rate = time.monotonic(), self.rate * share
        left, since = self._buckets.pop(who, (2 * rate, now))
        left = min(2 * rate, left + (now - since) * rate)
        self._buckets[who] = (max(left - cost, -DEBT_SECONDS * rate) if left >= 1 else left, now)
        if len(self._buckets) > BUCKETS_MAX:  # what was asked the longest ago is the fullest
            del self._buckets[next(iter(self._buckets))]
        if left < 1:
            raise _too_many(math.ceil((1 - left) / rate))

    def give_back(self, who: str, count: int) -> None:
        """What was taken and not used; less than none for what turned out to cost more."""
        if who in self._buckets:
            left, since = self._buckets[who]
            self._buckets[who] = (max(left + count, -DEBT_SECONDS * self.rate), since)


def _too_many(seconds: int = 1) -> Refused:
    hint = "wait a second" if seconds == 1 else f"wait {seconds} seconds"
    return Refused(429, "too_many_requests", "too many requests", hint, retry_after=seconds)


def unsaid(error: CoordinateError) -> Refused:
    """What somebody who is not known is told of a board that cannot be asked: the code. The rest, which may name the
    database and what is in it, is for the log."""
    logger.warning(error.message)
    return Refused(503, error.code, "the board cannot be asked now", "try again; the server's log says why")


def _bucket(scope: Scope) -> str:
    """Whose requests are counted together."""
    caller = scope["state"].get("caller")
    return f"address {address_of(scope)}" if caller is None else f"token {caller.token}"


def address_of(scope: Scope) -> str:
    """Where a request comes from; of IPv6 the network, of which one caller has all addresses."""
    address = str((scope.get("client") or ("", 0))[0])
    if ":" not in address:
        return address
    with suppress(ValueError):
        return str(ip_network((address.partition("%")[0], 64), strict=False))
    return address


def _door_before(scope: Scope) -> str:
    """Where to sign in, and from there to the view that was wanted."""
    query = scope["query_string"].decode("latin-1")
    wanted = scope.get("raw_path", b"/").decode("latin-1") + (f"?{query}" if query else "")
    return f"/enter?{urlencode({'to': wanted})}" if is_view(scope["path"]) and wanted != "/" else "/enter"


def status_of(error: CoordinateError) -> int:
    """The status that a refusal has."""
    return error.status if isinstance(error, Refused) else error.http_status


def wants_page(headers: Headers) -> bool:
    """Whether it is a browser that asks, for a page."""
    return "text/html" in headers.get("accept", "")


def is_view(path: str) -> bool:
    """Whether the page shows a view there."""
    return path in VIEWS or path.startswith(VIEWS_WITHIN)


def _follows_link(scope: Scope, headers: Headers) -> bool:
    """Whether a person followed a link of another site to a view, in a window of its own: nothing is changed by that,
    and the other site sees nothing of it. The door before one is led to as we do it, and with nothing else: a key
    signs in."""
    how = (scope["method"], headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    path, query = scope["path"], scope["query_string"]
    shown = is_view(path) or (path == "/enter" and (not query or (query.startswith(b"to=") and b"&" not in query)))
    return how == ("GET", "navigate", "document") and shown and wants_page(headers)


def refused(error: CoordinateError) -> JSONResponse:
    """A refusal as every part of the server says it."""
    told, status = error.as_dict(), status_of(error)
    headers = {}
    if isinstance(error, Refused):
        told["code"] = error.shown
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 429:
        headers["Retry-After"] = str(error.facts.get("retry_after", 1))
    if status == 405:
        headers["Allow"] = ", ".join(METHODS)
    return JSONResponse(told, status, headers)


# What is reached from this machine alone, and answers to its names; any other address needs names and tokens.
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


# The port that clients leave out of Host and Origin.
USUAL_PORT = {"http": 80, "https": 443}


def names_of(host: str, port: int, scheme: str, more: Collection[str] = ()) -> frozenset[str]:
    """What a server on this address is called in a Host header."""
    local = {"127.0.0.1", "localhost", "[::1]"} if host in THIS_MACHINE else set()
    names = {f"{name}:{port}" for name in local} | {name.lower() for name in more}
    return frozenset(names | {name.removesuffix(f":{USUAL_PORT[scheme]}") for name in names})


def new_secret() -> str:
    return secrets.token_urlsafe(24)


def _declared(headers: Headers, most: int) -> int:
    """How much a body may come to: as much as it says, or all that may be where it says nothing."""
    declared = headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > most:
        raise _too_large(most)
    return most if "transfer-encoding" in headers else int(declared)


async def _read(headers: Headers, receive: Receive, most: int) -> tuple[bytes, Receive]:
    """The whole body, bounded, before anything is done with it; and a way for others to read it again."""
    _declared(headers, most)
    parts: list[bytes] = []
    size, more = 0, "content-length" in headers or "transfer-encoding" in headers
    while more:
        message = await receive()
        if message["type"] != "http.request":  # what arrived of it may mean something else than the whole
            raise Refused(400, "cut_off", "the request ended before its body did", "send it again; nothing was changed")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        more = message.get("more_body", False)
    body = b"".join(parts)
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return body, again


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"a request of this kind may have {most} bytes", "send less at once")


def _bearer(headers: Headers) -> str:
    """The secret that is shown in the one header for it."""
    shown = headers.getlist("authorization")
    scheme, _, secret = shown[0].partition(" ") if len(shown) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else ""


def parse_object(body: bytes) -> dict[str, object]:
    """A request's JSON object; an empty body is an empty one."""
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused(400, "not_json", "the body is not JSON", "send one JSON object") from None
    if not isinstance(found, dict):
        raise Refused(400, "not_json", "the body must be a JSON object", "send one JSON object")
    return found


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a form, the last of each name."""
    if len(body) > FORM_MAX:
        raise _too_large(FORM_MAX)
    if body.count(b"&") >= FIELDS_MAX:
        raise Refused(413, "too_large", f"a form may have {FIELDS_MAX} fields", "send less at once")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
