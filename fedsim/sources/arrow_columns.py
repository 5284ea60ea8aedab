"""Columns of Arrow tables: their types, and their values as NumPy arrays; imports pyarrow."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.dates import days_of

COMPUTE: Any = pyarrow.compute  # its functions are made when it is imported
MAX_CHARACTERS = 500  # of a text that names a class, a client or a group


def lists(name: str, column: Any) -> np.ndarray:
    """Lists of numbers, all of the same shape, as an array `[n, ...]`.

    Raises:
      DataError: for lists of several lengths, and blanks.
    """
    column = getattr(column, "storage", column)
    shape = [len(column)]
    while is_list(column.type):
        is_fixed = pa.types.is_fixed_size_list(column.type)
        length = column.type.list_size if is_fixed else _common_length(column)
        if column.null_count or length is None:
            raise DataError(
                f"column {name[:60]!a}: holds lists of several lengths, or missing values; "
                "all samples need the same shape"
            )
        shape.append(length)
        column = column.flatten()
    if column.null_count:
        raise DataError(f"column {name[:60]!a}: holds blanks")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def plain(column: Any) -> np.ndarray:
    """Numbers or texts as a NumPy array `[n]`.

    Raises:
      DataError: for long texts, which are not names: NumPy stores each with the length of the
        longest.
    """
    if pa.types.is_dictionary(column.type):
        _require_short_texts(column)
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        longest = _longest(column)
        require_memory(names=4 * len(column) * longest)
        return np.array(column.to_pylist(), str)
    return column.to_numpy()


def extra_column(column: Any, names: list[str] | None) -> np.ndarray:
    """A column for partitions `[n]`; blanks become NaN or empty.

    Args:
      column: the column; dates become days.
      names: the names of its classes, where it holds classes.

    Raises:
      DataError: for long texts.
    """
    if names is not None:
        texts = [_class_name(code, names) for code in column.to_pylist()]
        return np.array(texts, str)
    if is_temporal(column.type):
        return days_of(column.to_numpy().astype("datetime64[us]"))
    if column.null_count and not is_numeric(column.type):
        column = column.fill_null("")
    return plain(column)


def is_image(column_type: Any, declaration: dict[str, Any]) -> bool:
    """Return whether a column holds encoded images.

    They are structs of bytes and path, or bytes that are declared to be images.

    Args:
      column_type: the column's Arrow type.
      declaration: what the writer declared about the column, if anything.
    """
    column_type = getattr(column_type, "storage_type", column_type)
    declared_type = declaration.get("_type")
    if declared_type not in (None, "Image"):
        return False
    if pa.types.is_struct(column_type):
        fields = {column_type.field(i).name for i in range(column_type.num_fields)}
        return fields == {"bytes", "path"}
    return declared_type == "Image" and pa.types.is_binary(column_type)


def is_list(column_type: Any) -> bool:
    """Return whether a column holds lists."""
    return (
        pa.types.is_list(column_type)
        or pa.types.is_large_list(column_type)
        or pa.types.is_fixed_size_list(column_type)
    )


def is_nested(column_type: Any) -> bool:
    """Return whether a column holds lists of numbers, or lists of such lists."""
    column_type = getattr(column_type, "storage_type", column_type)
    if not is_list(column_type):
        return False
    value_type = column_type.value_type
    return is_nested(value_type) or pa.types.is_primitive(value_type)


def is_text(column_type: Any) -> bool:
    """Return whether a column holds texts that are not encoded."""
    return pa.types.is_string(column_type) or pa.types.is_large_string(column_type)


def is_temporal(column_type: Any) -> bool:
    """Return whether a column holds dates or timestamps."""
    return pa.types.is_date(column_type) or pa.types.is_timestamp(column_type)


def is_numeric(column_type: Any) -> bool:
    """Return whether a column holds numbers, truth values, dates or timestamps."""
    return (
        pa.types.is_integer(column_type)
        or pa.types.is_floating(column_type)
        or pa.types.is_boolean(column_type)
        or is_temporal(column_type)
    )


def is_scalar(column_type: Any) -> bool:
    """Return whether a column holds numbers, dates or texts."""
    if pa.types.is_dictionary(column_type):
        return is_scalar(column_type.value_type)
    return is_text(column_type) or is_numeric(column_type)


def _common_length(column: Any) -> int | None:
    """The length that all lists of a column have; None where they differ."""
    lengths = np.diff(column.offsets.to_numpy())
    if not len(lengths):
        return 0
    return int(lengths[0]) if (lengths == lengths[0]).all() else None


def _require_short_texts(column: Any) -> None:
    """Refuse long texts of an encoded column, while each is held once."""
    for chunk in getattr(column, "chunks", [column]):
        if is_text(chunk.dictionary.type):
            _longest(chunk.dictionary)


def _longest(texts: Any) -> int:
    """The number of characters of the longest text.

    Raises:
      DataError: where it is too long for a name.
    """
    longest = COMPUTE.max(COMPUTE.utf8_length(texts)).as_py() or 0
    if longest > MAX_CHARACTERS:
        raise DataError(
            f"texts of up to {longest} characters, but names have at most {MAX_CHARACTERS}"
        )
    return longest


def _class_name(code: int | None, names: list[str]) -> str:
    """The name of a class; empty for a blank, and for a code without a name."""
    return "" if code is None or not 0 <= code < len(names) else names[code]
