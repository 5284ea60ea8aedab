"""Names from files and programs: they must be UTF-8 text, as all tables and pages of a run are."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedsim.errors import DataError

LAST = 0x10FFFF  # the last code point
SURROGATES = (0xD800, 0xDFFF)  # code points of halves of pairs, which mean nothing alone
ESCAPED_BYTES = (0xDC80, 0xDCFF)  # surrogates by which Python represents bytes that are not UTF-8
SHOWN = 40  # characters of a name in an error


def is_sound(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8.

    >>> is_sound("käse"), is_sound("k\\udce4se")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fault_of_name(text: str) -> str | None:
    """Return what is wrong with a name; None where nothing is.

    >>> fault_of_name("k\\udce4se")
    "'k\\\\xe4se' is not UTF-8 text: byte 0xe4; give it another name"
    """
    return None if is_sound(text) else _fault([ord(character) for character in text])


def reason_of(text: str) -> str | None:
    """Return why a text cannot be encoded as UTF-8; None where it can.

    >>> reason_of("k\\udce4se")
    'byte 0xe4'
    """
    return None if is_sound(text) else _reason([ord(character) for character in text])


def shown(text: str) -> str:
    """Return a text with all characters escaped that cannot be encoded as UTF-8.

    >>> shown("käse k\\udce4se")
    'käse k\\\\xe4se'
    """
    if is_sound(text):
        return text
    characters = [c if is_sound(c) else _escape(ord(c)) for c in text]
    return "".join(characters)


def require_sound(title: str, names: Any, entry: str = "row") -> None:
    """Refuse names that are not UTF-8 text; values other than text pass.

    Args:
      title: what the names belong to; the error begins with it.
      names: an array of texts or bytes `[n]`, or a sequence.
      entry: what the error calls one of them, followed by its index.

    Raises:
      DataError: naming the first of them, and what is wrong with it.
    """
    values = names if isinstance(names, np.ndarray) else np.fromiter(names, object, len(names))
    fault = None
    if values.dtype.kind == "U":
        fault = _fault_of_codes(values)
    elif values.dtype.kind == "S":
        fault = _fault_of_texts(_decode(value) for value in values.ravel().tolist())
    elif values.dtype.kind in "OT":
        fault = _fault_of_texts(values.ravel().tolist())

    if fault is not None:
        index, text = fault
        raise DataError(f"{title}: {entry} {index}: {text}")


def require_sound_file(name: str) -> None:
    """Refuse a file name that is not UTF-8.

    Raises:
      DataError: with its bytes.
    """
    if not is_sound(name):
        shown_bytes = repr(os.fsencode(name)[:200])[1:]
        raise DataError(
            f"{shown_bytes}: the name of the file or of its folder is not UTF-8 text; rename it"
        )


def _fault_of_codes(values: np.ndarray) -> tuple[int, str] | None:
    """Index and fault of the first unsound text of an array, which may hold any code points."""
    width = values.dtype.itemsize // 4
    if not width or not values.size:
        return None
    flat = np.ascontiguousarray(values).reshape(-1)
    code_point = np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder)
    codes = flat.view(code_point).reshape(-1, width)  # [n, width]

    unsound = (codes > LAST) | ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1]))
    rows = unsound.any(axis=1)
    if not rows.any():
        return None
    row = int(rows.argmax())
    end = np.flatnonzero(codes[row])[-1] + 1  # NumPy fills texts up with zeros
    return row, _fault(codes[row][:end].tolist())


def _fault_of_texts(texts: Iterable[Any]) -> tuple[int, str] | None:
    """Index and fault of the first unsound text."""
    for index, text in enumerate(texts):
        fault = fault_of_name(text) if isinstance(text, str) else None
        if fault is not None:
            return index, fault
    return None


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _fault(codes: list[int]) -> str:
    """What is wrong with a text that is given by its code points."""
    escaped = "".join(map(_escape, codes[:SHOWN]))
    return f"'{escaped}' is not UTF-8 text: {_reason(codes)}; give it another name"


def _reason(codes: list[int]) -> str:
    """Why the first code point that cannot be encoded cannot be."""
    first = next(code for code in codes if code > LAST or SURROGATES[0] <= code <= SURROGATES[1])
    if first > LAST:
        return f"U+{first:X} is not a character, the last is U+{LAST:X}"
    if ESCAPED_BYTES[0] <= first <= ESCAPED_BYTES[1]:
        return f"byte {first & 0xFF:#x}"
    return f"U+{first:X} is half of a surrogate pair"


def _escape(code: int) -> str:
    """A code point in an error: the character if it is ASCII, else its number, or its byte."""
    if 0x20 <= code < 0x7F:
        return chr(code)
    if ESCAPED_BYTES[0] <= code <= ESCAPED_BYTES[1]:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
