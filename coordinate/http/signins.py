"""Who signed in with a browser: its cookie names a sign-in of this process, and is no token.

A browser sends a cookie to every port of a host, and each of them can set it. So this one is good at this server alone,
is made anew each time, and is over with Leave, with its token and with the process; the second proof does not follow
from it.
"""

from __future__ import annotations

import hmac
import secrets
import time

# How many sign-ins of one token last; another ends the oldest.
OF_ONE_MAX = 100


class SignIns:
    """The sign-ins of one server."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._begun: dict[str, tuple[str, float]] = {}

    def begin(self, secret: str, seconds: float) -> str:
        """A new one, for whoever showed this secret."""
        now = time.monotonic()
        self._begun = {each: found for each, found in self._begun.items() if found[1] > now}
        of_one = [each for each, found in self._begun.items() if found[0] == secret]
        for oldest in of_one[: len(of_one) - OF_ONE_MAX + 1]:
            self.end(oldest)
        made = secrets.token_urlsafe(32)
        self._begun[made] = secret, now + seconds
        return made

    def secret(self, sign_in: str) -> str:
        """The secret that was shown; '' when it is over or never was."""
        secret, ends = self._begun.get(sign_in, ("", 0.0))
        return secret if time.monotonic() < ends else ""

    def end(self, sign_in: str) -> None:
        self._begun.pop(sign_in, None)

    def proof(self, sign_in: str) -> str:
        """What a form of this sign-in shows beside the cookie."""
        return hmac.digest(self._key, sign_in.encode("utf-8", "replace"), "sha256").hex()
