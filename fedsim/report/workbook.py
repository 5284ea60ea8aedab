"""Tables as an Excel workbook, a sheet for each."""

import io
import re
from collections.abc import Mapping

import pandas as pd

from fedsim.errors import DirectoryError

MAX_TITLE = 31  # characters of a sheet's name
FORBIDDEN = re.compile(r"[\[\]:*?/\\'\x00-\x1f]")  # characters in the name of a sheet


def workbook(tables: Mapping[str, pd.DataFrame], remark: str = "") -> bytes:
    """Tables as an Excel workbook; the remark is one of the file's properties.

    Infinite numbers are the texts `inf` and `-inf`, which a sheet does not have as numbers.

    Raises:
      DirectoryError: for tables that do not fit into a sheet, and where openpyxl is missing.
    """
    try:
        from openpyxl.utils.exceptions import IllegalCharacterError
    except ImportError:
        install = "pip install 'fedsim-jax[excel]', or pip install openpyxl"
        raise DirectoryError(f"xlsx needs openpyxl: {install}") from None

    file = io.BytesIO()
    writer = pd.ExcelWriter(file, engine="openpyxl")
    writer.book.properties.description = remark or None
    for name, table in tables.items():
        title = FORBIDDEN.sub("_", name)[:MAX_TITLE]
        try:
            table.to_excel(writer, sheet_name=title, index=False, freeze_panes=(1, 0))
        except (ValueError, IllegalCharacterError) as error:
            problem = str(error).splitlines()[0]
            raise DirectoryError(f"{name}: {problem}; export it as csv or parquet") from None
    writer.close()
    return file.getvalue()
