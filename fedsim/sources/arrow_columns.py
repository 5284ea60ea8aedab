"""Columns of Arrow tables: what they hold, and as NumPy's arrays. Imported where pyarrow is there."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.dates import days_of
from fedsim.sources.names import require_sound

COMPUTE: Any = pyarrow.compute  # whose functions are made when it is imported
MOST_CHARACTERS = 500  # of a text that names a class, a client or a group


def require_sound_texts(table: Any) -> None:
    """Refuse texts that are not UTF-8, which Arrow takes as they are.

    Raises:
      DataError: naming row and column.
    """
    for name in table.column_names:
        column = table.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            binary = pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()
            require_sound(f"column {name[:60]!a}", np.array(_contents(column, binary), object))
            raise


def _contents(column: Any, binary: Any) -> list[str]:
    """The texts of a column, bytes that are not UTF-8 by code points of their own."""
    chunks = [
        chunk.dictionary.view(binary).take(chunk.indices)
        if pa.types.is_dictionary(column.type)
        else chunk.view(binary)
        for chunk in column.chunks
    ]
    contents = [content for chunk in chunks for content in chunk.to_pylist()]
    return [
        "" if content is None else content.decode("utf-8", "surrogateescape")
        for content in contents
    ]


def lists(name: str, column: Any) -> np.ndarray:
    """Lists of numbers of one shape, `[n, ...]`.

    Raises:
      DataError: for lists of several lengths, and blanks.
    """
    column, shape = getattr(column, "storage", column), [len(column)]
    while _is_list(column.type):
        length = (
            column.type.list_size if pa.types.is_fixed_size_list(column.type) else _length(column)
        )
        if column.null_count or length is None:
            raise DataError(
                f"column {name[:60]!a}: lists of several lengths, or none; all samples need one shape"
            )
        shape.append(length)
        column = column.flatten()
    if column.null_count:
        raise DataError(f"column {name[:60]!a}: holds blanks")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def _length(column: Any) -> int | None:
    """How long the lists of a column are; None where they differ."""
    lengths = np.diff(column.offsets.to_numpy())
    if not len(lengths):
        return 0
    return int(lengths[0]) if (lengths == lengths[0]).all() else None


def plain(column: Any) -> np.ndarray:
    """Numbers, or texts, as NumPy holds them.

    Raises:
      DataError: for long texts, which name nothing, and of which NumPy gives each the room of the longest.
    """
    if pa.types.is_dictionary(column.type):
        _require_names(column)
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        longest = _longest(column)
        require_memory(names=4 * len(column) * longest)
        return np.array(column.to_pylist(), str)
    return column.to_numpy()


def _longest(texts: Any) -> int:
    """Characters of the longest text of a column.

    Raises:
      DataError: where it is too long for a name.
    """
    longest = COMPUTE.max(COMPUTE.utf8_length(texts)).as_py() or 0
    if longest > MOST_CHARACTERS:
        raise DataError(
            f"texts of up to {longest} characters, and names have {MOST_CHARACTERS} at most"
        )
    return longest


def _require_names(column: Any) -> None:
    """Refuse long texts while each is there once."""
    for part in getattr(column, "chunks", [column]):
        if pa.types.is_string(part.dictionary.type) or pa.types.is_large_string(
            part.dictionary.type
        ):
            _longest(part.dictionary)


def spare(column: Any, names: list[str] | None) -> np.ndarray:
    """A column for partitions: numbers, dates as days, texts and names of classes; blanks NaN or empty.

    Raises:
      DataError: for long texts.
    """
    if names is not None:
        codes = column.to_pylist()
        return np.array(
            ["" if k is None or not 0 <= k < len(names) else names[k] for k in codes], str
        )
    if is_temporal(column.type):
        return days_of(column.to_numpy().astype("datetime64[us]"))
    if column.null_count and not is_numeric(column.type):
        column = column.fill_null("")
    return plain(column)


def is_image(kind: Any, known: dict[str, Any]) -> bool:
    """Whether a column holds encoded images: structs of bytes and path, or bytes that are said to be images."""
    kind = getattr(kind, "storage_type", kind)
    if known.get("_type") not in (None, "Image"):
        return False
    pair = pa.types.is_struct(kind) and {"bytes", "path"} == {
        kind.field(i).name for i in range(kind.num_fields)
    }
    return pair or (known.get("_type") == "Image" and pa.types.is_binary(kind))


def _is_list(kind: Any) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_nested(kind: Any) -> bool:
    """Whether a column holds lists of numbers."""
    kind = getattr(kind, "storage_type", kind)
    return _is_list(kind) and (is_nested(kind.value_type) or pa.types.is_primitive(kind.value_type))


def is_temporal(kind: Any) -> bool:
    """Whether a column holds dates or moments."""
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def is_numeric(kind: Any) -> bool:
    """Whether a column holds numbers, truth values, dates or moments."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or is_temporal(kind)
    )


def is_scalar(kind: Any) -> bool:
    """Whether a column holds numbers, dates or texts."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return text or is_numeric(kind) or (pa.types.is_dictionary(kind) and is_scalar(kind.value_type))
