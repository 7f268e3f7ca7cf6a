"""Webhooks: events of the log, sent to an address as they happen: signed, in order, each at least once.

Which there are is said by the settings of whoever delivers, never by the board: who may write to a board must not make
a server send requests. A webhook is a consumer of the log with a place of its own, so a process that is killed between
an answer and its acknowledgement sends that event again, under the same id. One process at a time delivers for it,
because it holds a lock of the board. An address that fails holds up its own events and nobody else's; when it begins
to fail, is given up, or answers again, the log says so.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import http.client
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coordinate import __version__, config, errors, inputs
from coordinate.records import Event, EventBatch, as_json
from coordinate.service import Coordinator

# Its own events reach no webhook: an address that fails would otherwise feed itself.
AGENT = inputs.Own("webhooks")
REQUEST_SECONDS = 10.0
# Longer than a request, and renewed along the way; after a crash the next one takes over when it is past.
LOCK_SECONDS = 30
LOOK_SECONDS = 2.0
STOP_SECONDS = 3.0
BATCH = 50
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 900.0
GIVE_UP_SECONDS, GIVE_UP_SECONDS_MAX = 86_400, 172_800
GIVEN_UP_PAUSE_SECONDS = 3_600.0
SECRET_BYTES = (24, 64)
FAILING, GIVEN_UP, RECOVERED = "failing", "given_up", "recovered"

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Webhook:
    """One address, as config.toml says it; `events` are types, or their beginnings (`task.*`), none are all."""

    name: str
    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    events: tuple[str, ...] = ()
    project: str | None = None
    give_up_seconds: int = GIVE_UP_SECONDS

    @property
    def consumer(self) -> inputs.Own:
        return inputs.Own(f"{inputs.OF_WEBHOOKS}{self.name}")

    @property
    def origin(self) -> str:
        """Where it goes, without the path: that is often a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def wants(self, event: Event) -> bool:
        kind = event.event
        return not self.events or any(
            kind.startswith(each[:-1]) if each.endswith("*") else kind == each for each in self.events
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """How a webhook stands: `state` is new, delivering, failing or given_up; `behind` how many positions of the log it
    has not finished with; `delivered_by_somebody` whether a process delivers for it now."""

    name: str
    to: str
    events: tuple[str, ...]
    project: str | None
    state: str
    since: str | None
    error: str
    behind: int | None
    delivered_by_somebody: bool


def configured(place: config.Place) -> list[Webhook]:
    """The webhooks of a board's config.toml. Raises `InvalidInput` for what is not right, and names it."""
    tables = place.settings.get("webhooks", {})
    if not isinstance(tables, dict):
        raise _wrong("webhooks", "must be tables, such as [webhooks.chat]")
    return [_webhook(name, table, place.folder or Path()) for name, table in tables.items()]


@contextmanager
def delivering(board: Coordinator, webhooks: Sequence[Webhook], note: Note) -> Iterator[None]:
    """Deliver while the block runs, each webhook on a thread of its own; what they meet goes to `note`."""
    threads = [_Deliverer(board, each, note) for each in webhooks]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        for each in threads:
            each.over.set()
        deadline = time.monotonic() + STOP_SECONDS
        for each in threads:
            each.join(max(0.0, deadline - time.monotonic()))


def standing(board: Coordinator, webhook: Webhook) -> Standing:
    """How a webhook stands, as board and log tell it."""
    behind = None
    with suppress(errors.NotFound):  # nobody has delivered for it yet
        cursor = board.ack(consumer=webhook.consumer, position=0)
        behind = max(0, board.tail_events()[1] - cursor.acknowledged)
    told = _last_state(board, webhook)
    held = board.list_leases(kind="lock", held_by=AGENT, limit=inputs.LIST_MAX)
    return Standing(
        name=webhook.name,
        to=webhook.origin,
        events=webhook.events,
        project=webhook.project,
        state="new" if behind is None else told.state or "delivering",
        since=None if told.since is None else as_json(told.since),
        error=told.error,
        behind=behind,
        delivered_by_somebody=any(each.resource == _lock(webhook) for each in held),
    )


def try_out(webhook: Webhook) -> None:
    """Send one event `webhook.test`, once. Raises `NotDelivered`."""
    now = datetime.now(UTC)
    message = _Message(f"test_{time.time_ns()}", "webhook.test", now, {"message": "a test"})
    if fault := _send(webhook, message):
        raise errors.NotDelivered(
            f"{webhook.name} was not delivered: {fault}", hint="look at the address and at who answers there"
        )


# --- settings ---------------------------------------------------------------------------------------------------------

_KEYS = {"url", "secret_env", "secret_file", "events", "project", "give_up_seconds"}


def _webhook(name: str, table: Any, folder: Path) -> Webhook:
    where = f"webhooks.{name}"
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
        raise _wrong(where, "must be named with letters, digits, - and _, at most 60")
    if not isinstance(table, dict) or not {"url"} <= table.keys() <= _KEYS:
        raise _wrong(where, f"must be a table with url, and may have {', '.join(sorted(_KEYS - {'url'}))}")
    kinds = table.get("events", [])
    if not isinstance(kinds, list) or not all(isinstance(each, str) and each for each in kinds):
        raise _wrong(where, 'must name events as a list of texts, such as ["ask.*", "task.completed"]')
    give_up = table.get("give_up_seconds", GIVE_UP_SECONDS)
    return Webhook(
        name,
        _url(where, table["url"]),
        _secret(where, table, folder),
        tuple(kinds),
        inputs.name_or_none(table.get("project"), f"{where}.project"),
        inputs.integer(give_up, f"{where}.give_up_seconds", least=1, most=GIVE_UP_SECONDS_MAX),
    )


def _url(where: str, value: Any) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) and re.fullmatch(r"[!-~]+", value) else None
        sound = (
            parts
            and parts.scheme in ("http", "https")
            and parts.hostname
            and (parts.port or 1)
            and "@" not in parts.netloc
        )
    except ValueError:
        sound = False
    if not sound:
        raise _wrong(where, "must have a url such as https://example.org/hook, without a name or password in it")
    return str(value)


def _secret(where: str, table: dict[str, Any], folder: Path) -> bytes:
    """The key to sign with; in a variable or in a file of its own, which nobody else can read."""
    variable, name = table.get("secret_env"), table.get("secret_file")
    if isinstance(variable, str) and name is None:
        text, source = os.environ.get(variable, ""), f"${variable}"
    elif isinstance(name, str) and variable is None:
        path = folder / name
        source = str(path)
        try:
            fault = config.foreign(path) or ("it can be read by others" if path.stat().st_mode & 0o077 else None)
            text = path.read_text("ascii")
        except (OSError, ValueError) as error:
            fault, text = f"it cannot be read: {error}", ""
        if fault:
            raise _wrong(where, f"has its secret in {path}, which is not used: {fault}", "chmod 600 it")
    else:
        raise _wrong(where, "must say where its secret is: secret_env names a variable, or secret_file a file")
    try:
        secret = base64.b64decode(text.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    least, most = SECRET_BYTES
    if not least <= len(secret) <= most:
        raise _wrong(where, f"has no secret in {source}: whsec_ and {least} to {most} bytes in base64 are expected")
    return secret


def _wrong(where: str, what: str, hint: str = "see the page on webhooks in the documentation") -> errors.InvalidInput:
    return errors.InvalidInput(f"{where} in {config.CONFIG} {what}", hint=hint, field="webhooks")


# --- delivering -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Message:
    """What is sent: `id` is the same however often."""

    id: str
    kind: str
    at: datetime
    told: Any


class _Deliverer(threading.Thread):
    """Delivers one webhook's events, for as long as it holds the webhook's lock."""

    def __init__(self, board: Coordinator, webhook: Webhook, note: Note) -> None:
        super().__init__(name=webhook.consumer, daemon=True)
        self.over = threading.Event()
        self._board, self._webhook, self._note = board.acting(agent=AGENT), webhook, note
        self._said, self._state, self._since = "", "", datetime.now(UTC)
        self._fence, self._renewed = 0, 0.0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self._fence = self._board.acquire_lock(name=_lock(self._webhook), ttl_seconds=LOCK_SECONDS).fence
                self._renewed = time.monotonic()
                try:
                    self._deliver()
                finally:
                    with suppress(errors.CoordinateError):
                        self._board.release_lock(name=_lock(self._webhook), fence=self._fence)
            except (errors.Held, errors.StaleClaim):
                self._say("another process delivers; this one takes over when that ends")
            except errors.CoordinateError as error:
                self._say(f"waits for the board: {error.message}")
            except Exception as error:  # a deliverer that ended would be missed by nobody
                self._say(f"{type(error).__name__} came between; it is tried again")
            self.over.wait(LOOK_SECONDS)

    def _say(self, what: str) -> None:
        """Tell whoever started this, once for each change."""
        if what != self._said:
            self._said = what
            with suppress(OSError, ValueError):  # nobody listens any more
                self._note(f"{self._webhook.name}: {what}")

    def _deliver(self) -> None:
        told = _last_state(self._board, self._webhook)
        self._state = told.state
        if told.since is not None:
            self._since = told.since
        webhook, board = self._webhook, self._board
        while not self.over.is_set():
            self._keep_lock()
            batch = board.next_events(
                consumer=webhook.consumer, limit=BATCH, project=webhook.project, not_by=AGENT, wait=LOOK_SECONDS
            )
            if batch.gap is not None and not self._reach(_gap(batch)):
                return
            for event in filter(webhook.wants, batch.events):
                if not self._reach(_told(event)):
                    return
                board.ack(consumer=webhook.consumer, position=event.id or 0)
            if batch.delivered > batch.acknowledged:  # also past what the filters left out
                board.ack(consumer=webhook.consumer, position=batch.delivered)

    def _reach(self, message: _Message) -> bool:
        """Try until it is there, with growing pauses; False when this process is to end."""
        pause = PAUSE_SECONDS
        while not self.over.is_set():
            self._keep_lock()
            fault = _send(self._webhook, message)
            self._keep_lock()  # who lost it meanwhile acknowledges nothing
            if fault is None:
                self._turn("")
                return True
            self._turn(GIVEN_UP if self._is_hopeless() else FAILING, fault)
            if self._state == GIVEN_UP:
                pause = GIVEN_UP_PAUSE_SECONDS
            self._rest(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        return False

    def _is_hopeless(self) -> bool:
        return bool(self._state) and datetime.now(UTC) - self._since > timedelta(seconds=self._webhook.give_up_seconds)

    def _turn(self, state: str, fault: str = "") -> None:
        """Say in the log that it began to fail, is given up, or answers again."""
        if state == self._state:
            return
        if not self._state:
            self._since = datetime.now(UTC)
        # What says that it is given up stays in the log, and so does what takes that back.
        kept: dict[str, Any] = {"ttl_seconds": None} if GIVEN_UP in (state, self._state) else {}
        self._state = state
        name = self._webhook.name
        self._board.emit(
            event_type=f"webhook.{state or RECOVERED}",
            message=f"webhook {name}: {fault or 'it answers again'}",
            payload={"webhook": name, "error": fault, "since": as_json(self._since) if state else None},
            ref=self._webhook.consumer,
            **kept,
        )
        self._say(fault or "it answers again")

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.over.wait(min(left, LOCK_SECONDS / 3)):
            self._keep_lock()

    def _keep_lock(self) -> None:
        """Renew the lock in time. Raises `StaleClaim` or `Held` when it is lost."""
        if time.monotonic() - self._renewed > LOCK_SECONDS / 3:
            self._board.renew_lock(name=_lock(self._webhook), fence=self._fence)
            self._renewed = time.monotonic()


def _lock(webhook: Webhook) -> inputs.Own:
    return inputs.Own(f"{inputs.OWN_LOCKS}{webhook.name}")


@dataclass(frozen=True, slots=True)
class _Told:
    """What the log said last of a webhook: `state` is failing, given_up or nothing."""

    state: str = ""
    since: datetime | None = None
    error: str = ""


def _last_state(board: Coordinator, webhook: Webhook) -> _Told:
    for event in board.list_events(ref=webhook.consumer, by_agent=AGENT, limit=1):
        state = event.event.removeprefix("webhook.")
        if state in (FAILING, GIVEN_UP):
            since = None
            # An older board let others write such events, too.
            with suppress(KeyError, TypeError, ValueError, errors.InvalidInput):
                since = inputs.instant(datetime.fromisoformat(event.payload["since"]), "since")
            return _Told(state, since, str(event.payload.get("error", "")))
    return _Told()


def _told(event: Event) -> _Message:
    # The moment is in it because positions are a board's own, and two boards may send to one address.
    return _Message(f"evt_{event.id}_{event.created_at:%Y%m%d%H%M%S%f}", event.event, event.created_at, as_json(event))


def _gap(batch: EventBatch) -> _Message:
    """Events were pruned before they could be sent: that is said, too."""
    gap = batch.gap
    assert gap is not None
    return _Message(f"gap_{gap.after}_{gap.through}", "webhook.gap", datetime.now(UTC), as_json(gap))


# --- one request ------------------------------------------------------------------------------------------------------


def _send(webhook: Webhook, message: _Message) -> str | None:
    """Send it once; None when it was accepted, else why not. It is over after `REQUEST_SECONDS`, whatever hangs:
    nothing is sent any more then.

    No redirect is followed, no proxy used, and of the answer nothing is read but its head.
    """
    body = json.dumps({"type": message.kind, "timestamp": as_json(message.at), "data": message.told}).encode()
    said = [f"no answer within {REQUEST_SECONDS:g} s"]
    parts = urlsplit(webhook.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_SECONDS)

    over = threading.Event()

    def ask() -> None:
        try:
            connection.connect()
            if over.is_set():  # the next one may be under way by now
                return
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, _headers(webhook, message.id, body))
            status = connection.getresponse().status
            said[0] = "" if 200 <= status < 300 else f"it answered {status}"
        except Exception as error:
            said[0] = (
                f"no answer: {type(error).__name__}"  # its text may be the answerer's, who has address and signature
            )
        finally:
            connection.close()

    # On a thread, since a name that is not resolved, or an answer that comes letter by letter, keeps to no timeout.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(REQUEST_SECONDS)
    over.set()
    if asking.is_alive() and connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(2)
    return said[0] or None


def _headers(webhook: Webhook, message_id: str, body: bytes) -> dict[str, str]:
    """The headers of the Standard Webhooks specification: id, time and signature, which covers both and the body."""
    now = str(int(time.time()))
    digest = hmac.digest(webhook.secret, f"{message_id}.{now}.".encode() + body, "sha256")
    return {
        "Content-Type": "application/json",
        "User-Agent": f"coordinate/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
