"""The clock, moved instead of waited for: every time that a board has stored is shifted back."""

from __future__ import annotations

from coordinate.db.schema import metadata
from tests.tables import is_postgres, run


def age(url: str, seconds: int) -> None:
    """Make everything on the board `seconds` older, so that leases, delays and events run out as if time had passed."""
    if is_postgres(url):
        shifted = f"{{0}} = {{0}} - make_interval(secs => {seconds})"
    else:
        shifted = f"{{0}} = strftime('%Y-%m-%dT%H:%M:%fZ', {{0}}, '-{seconds} seconds')"
    moments = {
        table.name: [column.name for column in table.columns if column.type.python_type.__name__ == "datetime"]
        for table in metadata.sorted_tables
        if not table.info and table.name != "board_move"  # who works on a board may not touch the record of its move
    }
    run(
        url,
        *(
            f"UPDATE {table} SET {', '.join(shifted.format(name) for name in names)}"
            for table, names in moments.items()
            if names
        ),
    )
