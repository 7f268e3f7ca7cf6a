"""What may be said of a server's address: everything but its secrets."""

from __future__ import annotations

import re
from urllib.parse import unquote

# Of libpq's parameters those that are secrets, and those that name the file of one: each host has its own.
SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
FILES_OF_SECRETS = ("passfile", "sslkey", "sslkeylogfile")
NOT_WRITTEN_DOWN = "the password was not written down: keep it in a passfile, or name the board in $COORDINATE_DB"


def without_secret(address: str) -> str:
    """A database address without its password, wherever that stands, also in an address that is not quite right."""
    scheme, _, rest = address.partition("://")
    user = ""
    # Up to the first @ everything but a / is user and password, also a ? that was not escaped.
    if found := re.match(r"[^@/]*@", rest):
        user, rest = found.group().rstrip("@").partition(":")[0] + "@", rest[found.end() :]
    place, _, query = rest.partition("?")
    kept = [part for part in query.split("&") if part and unquote(part.partition("=")[0]).lower() not in SECRETS]
    return f"{scheme}://{user}{place.rpartition('@')[2]}" + ("?" + "&".join(kept) if kept else "")


def without_secrets(said: str) -> str:
    """The same without any password of a database address, whether it came in a flag, a variable or a wrong place.

    A password that was not encoded may hold anything. In one word with it the last @ ends it: a port and a path
    need none, and encode it. A password with spaces goes on to the next @, unless what looks like one is a port, as in
    an address without a user: then whatever follows is said of it.
    """
    secrets = "|".join(SECRETS)
    said = re.sub(rf"(?i)((?:{secrets})\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", r"\1***", said)
    same = r"(?!\b(?:postgres(?:ql)?(?:\+\w+)?|mysql|sqlite)://)"
    in_a_word = rf"(?:{same}\S)*@"
    with_spaces = rf"(?!\d{{1,5}}(?:[/?,:;)\]'\"\s]|$)|[\w:.%]*\])(?:{same}[^@])*@(?:{in_a_word})?"
    return re.sub(rf"(://[^\s:/]*:)(?:{in_a_word}|{with_spaces})", r"\1***@", said)
