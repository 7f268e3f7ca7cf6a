"""A headless Chromium that is installed on the machine, driven from outside; every request that it makes is noted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page


NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--font-render-hinting=none"),
]


def find() -> str | None:
    """The browser of this machine: what $COORDINATE_TEST_BROWSER names, else the first on the path."""
    named = os.environ.get("COORDINATE_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def running() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=find(), args=ARGUMENTS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """What a browser did that a test may not have meant: requests, dialogs, errors, refusals of the policy."""

    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def foreign(self, own: str) -> list[str]:
        return [url for url in self.requests if not url.startswith((own, "data:", "about:"))]


@contextmanager
def visiting(
    browser: Browser, *, width: int = 1280, height: int = 800, dark: bool = False, script: bool = True
) -> Iterator[tuple[Page, Watched]]:
    """A visitor with a profile of their own."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
        reduced_motion="reduce",
    )
    context.set_default_timeout(20_000)
    watched = Watched()
    context.on("request", lambda request: watched.requests.append(request.url))
    context.on("dialog", lambda dialog: (watched.dialogs.append(dialog.message), dialog.dismiss()))
    context.on("weberror", lambda error: watched.complaints.append(str(error.error)))
    # A refusal is an answer; what the policy stopped and what a script stumbled over is not.
    context.on("console", lambda said: _complains(said) and watched.complaints.append(said.text))
    try:
        yield context.new_page(), watched
    finally:
        context.close()


def _complains(said: ConsoleMessage) -> bool:
    return said.type == "error" and "the server responded with a status of 4" not in said.text
