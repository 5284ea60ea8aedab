"""Columns of Arrow tables: their types, and their values as NumPy arrays; imports pyarrow."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.cells import days_of

COMPUTE: Any = pyarrow.compute  # its functions are made when it is imported
TYPES: Any = pa.types
MAX_CHARACTERS = 500  # of a text that names a class, a client or a group


def lists(name: str, column: Any) -> np.ndarray:
    """Lists of numbers, all of the same shape and without blanks, as an array `[n, ...]`."""
    column = getattr(column, "storage", column)
    shape = [len(column)]
    while is_list(column.type):
        lengths = np.unique(COMPUTE.list_value_length(column).drop_null())
        if column.null_count or len(lengths) > 1:
            raise DataError(
                f"column {name[:60]!a}: holds lists of several lengths, or missing values; "
                "all samples need the same shape"
            )
        shape += lengths.tolist() or [0]
        column = column.flatten()
    if column.null_count:
        raise DataError(f"column {name[:60]!a}: holds blanks")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def plain(column: Any) -> np.ndarray:
    """Numbers or texts as a NumPy array `[n]`; blank texts are empty, dates are days.

    Long texts are refused, which are not names: NumPy stores each with the length of the longest.
    """
    texts = [column]
    if TYPES.is_dictionary(column.type):  # of which each text is held once
        texts = [chunk.dictionary for chunk in column.chunks]
    lengths = [COMPUTE.max(COMPUTE.utf8_length(part)).as_py() for part in texts if _is_text(part)]
    longest = max((length or 0 for length in lengths), default=0)
    if longest > MAX_CHARACTERS:
        raise DataError(
            f"texts of up to {longest} characters, but names have at most {MAX_CHARACTERS}"
        )
    if TYPES.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column):
        require_memory(names=4 * len(column) * longest)
        return np.array(column.fill_null("").to_pylist(), str)
    if TYPES.is_date(column.type) or TYPES.is_timestamp(column.type):
        return days_of(column.to_numpy().astype("datetime64[us]"))
    return column.to_numpy()


def is_image(column_type: Any, declaration: dict[str, Any]) -> bool:
    """Return whether a column holds encoded images.

    They are structs of bytes and path, or bytes that their writer declared to be images.
    """
    column_type = getattr(column_type, "storage_type", column_type)
    declared_type = declaration.get("_type")
    if declared_type not in (None, "Image"):
        return False
    if TYPES.is_struct(column_type):
        return {field.name for field in column_type} == {"bytes", "path"}
    return declared_type == "Image" and TYPES.is_binary(column_type)


def is_list(column_type: Any) -> bool:
    """Return whether a column holds lists."""
    kinds = (TYPES.is_list, TYPES.is_large_list, TYPES.is_fixed_size_list)
    return any(is_kind(column_type) for is_kind in kinds)


def is_nested(column_type: Any) -> bool:
    """Return whether a column holds lists of numbers, or lists of such lists."""
    column_type = getattr(column_type, "storage_type", column_type)
    if not is_list(column_type):
        return False
    return is_nested(column_type.value_type) or TYPES.is_primitive(column_type.value_type)


def is_text(column_type: Any) -> bool:
    """Return whether a column holds texts that are not encoded."""
    return TYPES.is_string(column_type) or TYPES.is_large_string(column_type)


def is_scalar(column_type: Any) -> bool:
    """Return whether a column holds numbers, truth values, dates or texts."""
    if TYPES.is_dictionary(column_type):
        column_type = column_type.value_type
    return is_text(column_type) or TYPES.is_primitive(column_type)


def _is_text(values: Any) -> bool:
    return is_text(values.type)
