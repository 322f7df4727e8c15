"""The file of a shelf: all items that a thread keeps under one name, in the order of their keys.

Pure. The file has a number in its name, and the file of the thread says which number counts; so a
change of items becomes visible together with everything else that its commit changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from lastgood.backends.files.rows import Columns, read_columns, spelled
from lastgood.codec import text
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.rows import ItemRow

FORMAT = 1


def file_of(shelf: str, rows: Iterable[Columns]) -> bytes:
    """The file."""
    items = [spelled(ItemRow, row) for row in rows]
    return f"{text.lines({'lastgood': FORMAT, 'shelf': shelf, 'items': items})}\n".encode()


def read(raw: bytes, where: str) -> tuple[Columns, ...]:
    """The rows in a file; CheckpointIntegrityError if it is damaged beyond single rows."""
    try:
        document = text.parse(raw.decode())
        if document["lastgood"] != FORMAT:
            raise ValueError(f"its format is {document['lastgood']!r}")
        return tuple([read_columns(ItemRow, row) for row in document["items"]])
    except (LastgoodError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointIntegrityError(
            f"{where} is damaged: {error}", hint="Put back a copy of the file."
        ) from error
