"""Data frames of pandas and polars, told by what they can do: neither is imported here."""

from __future__ import annotations

import csv
import os
import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Union

from ._errors import ArgumentError, DataError

Path = Union[str, "os.PathLike[str]"]
Data = Union[str, "os.PathLike[str]", Any]
"""The path of a file, or a data frame of pandas or polars."""

_NESTED = (list, tuple, dict, set, bytes, bytearray)


def is_frame(value: Any) -> bool:
    """Whether it is a data frame: a table with named columns, of pandas, polars or another library like these."""
    return hasattr(value, "columns") and hasattr(value, "shape") and (_is_pandas(value) or _is_polars(value))


def kind(value: Any) -> str:
    """What messages call a value."""
    return "data frame" if is_frame(value) or hasattr(value, "collect_schema") else type(value).__name__


def path_of(value: Any, what: str) -> pathlib.Path:
    """The path of a file."""
    if isinstance(value, (str, os.PathLike)):
        return pathlib.Path(value)
    raise ArgumentError(f"{what} is a {kind(value)}: give the path of a file")


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame by name, with None for no value."""
    if _is_polars(frame):
        found: list[dict[str, Any]] = frame.to_dicts()
        return found
    missing = frame.isna().to_numpy().tolist()
    rows = zip(frame.to_dict("records"), missing)
    return [{str(name): None if none else row[name] for name, none in zip(row, gaps)} for row, gaps in rows]


def matrix(frame: Any) -> list[list[Any]]:
    """The rows of a data frame, whose columns are numbers, one after the other."""
    if _is_polars(frame):
        return [list(row) for row in frame.rows()]
    rows: list[list[Any]] = frame.to_numpy().tolist()
    return rows


@contextmanager
def file_of(data: Data) -> Iterator[tuple[pathlib.Path, str]]:
    """The file of the data, and the name by which messages call it.

    A data frame is written to a file that only this user can read, and that is deleted afterwards. Its cells are
    written as they stand, numbers with all their digits. Line 2 of the file is the first row.
    """
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        # A lazy frame of polars.
        data = data.collect()
    if not is_frame(data):
        if not isinstance(data, (str, os.PathLike)):
            raise ArgumentError(
                f"the data are a {type(data).__name__}: give the path of a file, or a data frame of pandas or polars"
            )
        yield pathlib.Path(data), str(data)
        return
    # mkdtemp makes a folder that is the user's alone.
    with tempfile.TemporaryDirectory(prefix="helba-") as folder:
        path = pathlib.Path(folder) / "frame.csv"
        _write(data, path)
        yield path, "the data frame"


def _is_pandas(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("to_csv", "index", "dtypes", "isna"))


def _is_polars(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("write_csv", "schema", "to_dicts"))


def _write(frame: Any, path: pathlib.Path) -> None:
    """Writes the frame with every cell in quotes, so that no name and no text is taken for a delimiter or an empty line."""
    if len(frame.columns) > 0 and all(_is_number(name) for name in frame.columns):
        # Readers of files take such a header for a row.
        raise DataError("the columns of the data frame have numbers for names: give them names, as frame.columns = [...]")
    if _is_polars(frame):
        _refuse_nested((name, frame[name].drop_nulls().head(1).to_list()) for name in frame.columns)
        frame.write_csv(path, quote_style="always")
        return
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError("the data frame has several levels of column names: give its columns one name each")
    objects = [name for name in frame.columns if str(frame.dtypes.get(name)) == "object"]
    _refuse_nested((name, frame[name].dropna().head(1).tolist()) for name in objects)
    # An index with a name is a column: a frame that was grouped or indexed by one has it nowhere else.
    named = any(name is not None for name in frame.index.names)
    frame.to_csv(path, index=named, quoting=csv.QUOTE_ALL, encoding="utf-8")


def _is_number(name: Any) -> bool:
    try:
        float(name)
    except (TypeError, ValueError):
        return False
    return True


def _refuse_nested(columns: Any) -> None:
    for name, first in columns:
        if first and isinstance(first[0], _NESTED):
            raise DataError(
                f"column {name} of the data frame holds a {type(first[0]).__name__} in each cell: give it a column for each value"
            )
