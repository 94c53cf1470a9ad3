"""Values of an indexed column of runs, found by steps from each value to the next: few, however many runs there are."""

from __future__ import annotations

from collections.abc import Sequence

from .reader import HistoryReader


def distinct(
    history: HistoryReader, column: str, limit: int, within: Sequence[tuple[str, object]] = ()
) -> list[str]:
    """Return the first values of a column, in their order.

    Args:
        history: The history.
        column: A text column that an index begins with, after the columns of `within`.
        limit: Most values.
        within: Columns and the values that they have.
    """
    same = " AND ".join(f"{name} = ?" for name, _ in within) or "true"
    first = f"SELECT min({column}) FROM runs WHERE {same}"  # noqa: S608
    query = (
        f"WITH RECURSIVE found (value) AS ({first} UNION ALL "  # noqa: S608
        f"SELECT ({first} AND {column} > value) FROM found WHERE value IS NOT NULL LIMIT ?) "
        "SELECT value FROM found WHERE value IS NOT NULL"
    )
    given = [value for _, value in within]
    return [value for (value,) in history.select(query, *given, *given, limit)]
