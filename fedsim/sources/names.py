"""Names from files and programs: texts that can be written as UTF-8, as every table and page of a run is."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedsim.errors import DataError

LAST = 0x10FFFF  # code point
SURROGATES = (0xD800, 0xDFFF)  # code points of halves of pairs, which mean nothing alone
ESCAPED = (0xDC80, 0xDCFF)  # of them those by which Python writes a byte that is not UTF-8
SHOWN = 40  # characters of a name in an error


def is_sound(text: str) -> bool:
    """Whether a text can be written as UTF-8.

    >>> is_sound("käse"), is_sound("k\\udce4se")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fault_of(text: str) -> str | None:
    """What is wrong with a name; None where nothing is.

    >>> fault_of("k\\udce4se")
    "'k\\\\xe4se' is no text in UTF-8: byte 0xe4; give it another name"
    """
    return None if is_sound(text) else _told([ord(character) for character in text])


def reason_of(text: str) -> str | None:
    """Why a text cannot be written as UTF-8; None where it can.

    >>> reason_of("k\\udce4se")
    'byte 0xe4'
    """
    return None if is_sound(text) else _reason([ord(character) for character in text])


def shown(text: str) -> str:
    """A text as it is, but for what cannot be written as UTF-8.

    >>> shown("käse k\\udce4se")
    'käse k\\\\xe4se'
    """
    return text if is_sound(text) else "".join(c if is_sound(c) else _escaped(ord(c)) for c in text)


def require_sound(title: str, names: Any, entry: str = "row") -> None:
    """Refuse names that are not sound; anything but texts is left alone.

    Args:
      title: what they name, in front of the error.
      names: an array of texts or bytes `[n]`, or a sequence.
      entry: what one of them is called in the error, with its place.

    Raises:
      DataError: naming the first of them, and what is wrong with it.
    """
    values = names if isinstance(names, np.ndarray) else np.fromiter(names, object, len(names))
    if values.dtype.kind == "U":
        fault = _fault_of_codes(values)
    elif values.dtype.kind == "S":
        fault = _fault_of_texts(_decoded(value) for value in values.ravel().tolist())
    elif values.dtype.kind in "OT":
        fault = _fault_of_texts(values.ravel().tolist())
    else:
        fault = None
    if fault is not None:
        place, text = fault
        raise DataError(f"{title}: {entry} {place}: {text}")


def require_sound_file(name: str) -> None:
    """Refuse a file name that is not UTF-8.

    Raises:
      DataError: with its bytes.
    """
    if not is_sound(name):
        shown = repr(os.fsencode(name)[:200])[1:]
        raise DataError(
            f"{shown}: the name of the file or of its folder is no text in UTF-8; rename it"
        )


def _fault_of_codes(values: np.ndarray) -> tuple[int, str] | None:
    """Place and fault of the first unsound text of an array of code points, which may be none that Python knows."""
    width = values.dtype.itemsize // 4
    if not width or not values.size:
        return None
    flat = np.ascontiguousarray(values).reshape(-1)
    codes = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder)).reshape(-1, width)
    unsound = (codes > LAST) | ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1]))
    rows = unsound.any(axis=1)
    if not rows.any():
        return None
    row = int(rows.argmax())
    return row, _told(codes[row][: np.flatnonzero(codes[row])[-1] + 1].tolist())


def _fault_of_texts(texts: Iterable[Any]) -> tuple[int, str] | None:
    """Place and fault of the first unsound text."""
    for place, text in enumerate(texts):
        fault = fault_of(text) if isinstance(text, str) else None
        if fault is not None:
            return place, fault
    return None


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _told(codes: list[int]) -> str:
    """What is wrong with a text, given by its code points."""
    shown = "".join(map(_escaped, codes[:SHOWN]))
    return f"'{shown}' is no text in UTF-8: {_reason(codes)}; give it another name"


def _reason(codes: list[int]) -> str:
    """Of the first code point that cannot be written."""
    first = next(code for code in codes if code > LAST or SURROGATES[0] <= code <= SURROGATES[1])
    if first > LAST:
        return f"U+{first:X} is no character, the last is U+{LAST:X}"
    if ESCAPED[0] <= first <= ESCAPED[1]:
        return f"byte {first & 0xFF:#x}"
    return f"U+{first:X} is half of a surrogate pair"


def _escaped(code: int) -> str:
    """A character in an error: as it is in ASCII, else by its number; a byte as such."""
    if 0x20 <= code < 0x7F:
        return chr(code)
    if ESCAPED[0] <= code <= ESCAPED[1]:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
