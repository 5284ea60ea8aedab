"""Names from files and programs: they must be UTF-8 text, as all tables and pages of a run are."""

import sys
from typing import Any

import numpy as np

from fedsim.errors import DataError

SHOWN = 40  # characters of a name in an error


def fault_of_name(text: str) -> str | None:
    """Return what is wrong with a name; None where nothing is.

    >>> fault_of_name("k\\udce4se")
    "'k\\\\udce4se' is not UTF-8 text; give it another name"
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{text[:SHOWN]!a} is not UTF-8 text; give it another name"
    return None


def require_sound(title: str, names: Any, entry: str = "row") -> None:
    """Refuse names that are not UTF-8 text; values other than text pass.

    They are an array of texts or bytes, or a sequence. The error begins with the title, and calls
    a name by `entry` and its index.
    """
    values: Any = names
    if isinstance(names, np.ndarray):
        if names.dtype.kind not in "USOT":
            return
        if names.dtype.kind == "U" and names.size:  # in which NumPy stores any numbers
            code_point = np.dtype(np.uint32).newbyteorder(names.dtype.byteorder)
            if np.ascontiguousarray(names).reshape(-1).view(code_point).max() > sys.maxunicode:
                raise DataError(f"{title}: holds texts that are not UTF-8; give other names")
        values = names.ravel().tolist()
    for index, value in enumerate(values):
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        fault = fault_of_name(value) if isinstance(value, str) else None
        if fault is not None:
            raise DataError(f"{title}: {entry} {index}: {fault}")
