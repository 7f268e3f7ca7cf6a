"""coordinate: one shared truth for many coding agents, in one SQLite file or on Postgres.

    import coordinate

    with coordinate.connect("board.db", agent="alice", create=True) as c:
        c.dispatch(title="Write the parser", role="worker")
        claim = c.claim_next(role="worker")
        c.complete(handle=claim.handle)

`Coordinator` (see `service.py`) lists all that can be done; `errors` all that can go wrong.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which whoever asks for the version alone need not load
if TYPE_CHECKING:
    from typing import Any

    from coordinate import errors, records
    from coordinate.service import Coordinator, connect

__version__ = "0.1.0"

__all__ = ["Coordinator", "__version__", "connect", "errors", "records"]


def __getattr__(name: str) -> Any:
    """Load the public names when they are first used: `coordinate --help` needs none of them."""
    if name in ("errors", "records"):
        return import_module(f"coordinate.{name}")
    if name in __all__:
        return getattr(import_module("coordinate.service"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
