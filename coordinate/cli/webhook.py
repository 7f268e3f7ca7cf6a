"""Webhooks: how they stand, a test, and delivering without a server."""

from __future__ import annotations

import threading

from coordinate import config, webhooks
from coordinate.cli.declared import argument, command
from coordinate.cli.shared import Call
from coordinate.errors import NotFound, PermissionDenied


@command("list", example="coordinate webhook list --format table")
def list_webhooks(call: Call) -> None:
    """Say of each webhook of config.toml how it stands: how far behind it is, whether it fails, since when and why."""
    found = webhooks.configured(config.locate(call.target()))
    with call.board() as board:
        call.show([webhooks.standing(board, each) for each in found])


@command("test", example="coordinate webhook test chat")
@argument("name")
def test(call: Call, name: str) -> None:
    """Send a webhook one signed event webhook.test, once, and say what came of it."""
    for each in _some(call):
        if each.name == name:
            webhooks.try_out(each)
            call.show({"webhook": name, "delivered": True})
            return
    raise NotFound(f"no webhook is called {name!r}", hint="coordinate webhook list names them")


@command("run", example="coordinate webhook run")
def run(call: Call) -> None:
    """Deliver the webhooks of config.toml until interrupted (exit 0); `coordinate serve` does so by itself.

    Any number may run: one of them delivers for a webhook, and another goes on when it is gone.
    """
    from coordinate.service import connect

    found = _some(call)
    with connect(call.target()) as board, webhooks.delivering(board, found, call.warn):
        call.show({"delivering": [each.name for each in found]})
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


def _some(call: Call) -> list[webhooks.Webhook]:
    place = config.locate(call.target())
    if found := webhooks.configured(place):
        return found
    if place.refusals:
        raise PermissionDenied(place.refusals[0], hint="its webhooks are delivered once that is put right")
    raise NotFound("config.toml names no webhook", hint="see the page on webhooks in the documentation")
