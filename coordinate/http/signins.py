"""Who signed in with a browser: its cookie names a sign-in, and is no token.

A browser sends a cookie to every port of a host, and each of them can set it. So this one is good at this server alone,
is made anew each time, and is over with Leave and with its token; the second proof does not follow from it.

A sign-in outlasts the process where there is a folder to keep it in, and is then of no use to whoever reads that: what
is kept is a hash of the cookie, and the secret sealed with the cookie itself, which only the browser has.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from coordinate import config

# How many sign-ins of one token last; another ends the oldest.
OF_ONE_MAX = 100
# Whose sign-in it is where that is not a token's: the secret of the owner is another in each process.
OWNER = "owner "


class SignIns:
    """The sign-ins of one server: by a hash of the cookie (whose it is, the sealed secret, when it ends).

    Those of the owner are good as long as the server is one of the same board for the same owner, which `of` tells.
    """

    def __init__(self, kept: Path | None = None, owner: str = "", of: str = "") -> None:
        self._key = secrets.token_bytes(32)
        self._kept, self._owner = kept, owner
        self._owners = OWNER + hashlib.sha256(_bytes(of)).hexdigest()
        self._begun = {} if kept is None else _read(kept)

    def begin(self, secret: str, seconds: float) -> str:
        """A new one, for whoever showed this secret."""
        now = time.time()
        whose = self._owners if secret == self._owner else hashlib.sha256(secret.encode()).hexdigest()
        self._begun = {each: found for each, found in self._begun.items() if found[2] > now}
        of_one = [each for each, found in self._begun.items() if found[0] == whose]
        for oldest in of_one[: max(0, len(of_one) + 1 - OF_ONE_MAX)]:
            del self._begun[oldest]
        made = secrets.token_urlsafe(32)
        sealed = "" if whose == self._owners else _sealed(secret.encode(), made).hex()
        self._begun[_name(made)] = whose, sealed, now + seconds
        self._keep()
        return made

    def secret(self, sign_in: str) -> str:
        """The secret that was shown; '' when it is over or never was."""
        whose, sealed, ends = self._begun.get(_name(sign_in), ("", "", 0.0))
        if time.time() >= ends:
            return ""
        if whose == self._owners:
            return self._owner
        return _sealed(bytes.fromhex(sealed), sign_in).decode("utf-8", "replace")

    def end(self, sign_in: str) -> bool:
        """End it. False when it goes on: the file that has it could not be written, and would bring it back."""
        name = _name(sign_in)
        found = self._begun.pop(name, None)
        if found is None or self._kept is None or self._keep() or name not in _read(self._kept):
            return True
        self._begun[name] = found
        return False

    def proof(self, sign_in: str) -> str:
        """What a form of this sign-in shows beside the cookie."""
        return hmac.digest(self._key, _bytes(sign_in), "sha256").hex()

    def _keep(self) -> bool:
        """Whether it was written; what could not be ends with the process."""
        if self._kept is None:
            return False
        partial = self._kept.with_name(f"{self._kept.name}.partial")
        with suppress(OSError):
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(self._begun, file)
            partial.replace(self._kept)
            return True
        return False


def _read(path: Path) -> dict[str, tuple[str, str, float]]:
    """What an earlier process kept; nothing that another could have put there."""
    try:
        if not path.is_file() or config.foreign(path) is not None or config.tracked_by_git(path):
            return {}
        said = json.loads(path.read_text(encoding="utf-8"))
        found = {str(each): (str(whose), str(sealed), float(ends)) for each, (whose, sealed, ends) in said.items()}
        for _, sealed, _ in found.values():
            bytes.fromhex(sealed)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}
    return found


def _sealed(secret: bytes, sign_in: str) -> bytes:
    """Sealed, or opened again: a cookie is used for one secret alone, and is as hard to guess as it."""
    pad = hashlib.shake_256(b"seal " + _bytes(sign_in)).digest(len(secret))
    return bytes(one ^ other for one, other in zip(secret, pad, strict=True))


def _name(sign_in: str) -> str:
    return hashlib.sha256(b"name " + _bytes(sign_in)).hexdigest()


def _bytes(sign_in: str) -> bytes:
    return sign_in.encode("utf-8", "replace")
