"""Rows of which each has many strings, as a clip has files of frames: made one tensor."""

from collections.abc import Sequence
from typing import Any

from models.errors import UserError


def is_row(value: Any) -> bool:
    """Whether a value of a column is a row of values."""
    return isinstance(value, (list, tuple))


def padded_rows(name: str, rows: Sequence) -> list[list[bytes]]:
    """Rows of texts or bytes as rows [B, F] of one length, at least 1, padded with `b""`.

    Args:
        name: The input, for messages.
        rows: A list of texts or bytes each.

    Raises:
        UserError: If they hold anything else.
    """
    for number, row in enumerate(rows, start=1):
        if not is_row(row) or any(not isinstance(value, (str, bytes)) for value in row):
            raise UserError(
                f"the input {name!r}: row {number} is not a list of texts or bytes, as another row "
                f"is; give lists of them alone, such as the files of a clip's frames"
            )
    longest = max(1, *map(len, rows))
    return [
        [value.encode("utf-8", "replace") if isinstance(value, str) else value for value in row]
        + [b""] * (longest - len(row))
        for row in rows
    ]
