"""Bombs that are Excel workbooks."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile.bombs import bomb
from workbooks import HEAD, parts, sheet

SECTION = {"kind": "xlsx", "path": "t.xlsx"}


def _of_rows(folder: Path, rows: Iterator[str]) -> dict[str, Any]:
    """A sheet that is written piece by piece."""
    members = parts()
    start, end = sheet("\n").split("\n")
    with zipfile.ZipFile(folder / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if "sheet1" not in name:
                archive.writestr(name, content)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as file:
            file.write((start + HEAD).encode())
            for row in rows:
                file.write(row.encode())
            file.write(end.encode())
    return SECTION


@bomb
def workbook_of_zeros(folder: Path) -> dict[str, Any]:
    row = "<row><c><v>0</v></c><c><v>0</v></c></row>" * 10_000
    return _of_rows(folder, (row for _ in range(2000)))


@bomb
def workbook_of_wide_rows(folder: Path) -> dict[str, Any]:
    rows = (f'<row r="{i}"><c r="XFD{i}"/></row>' for i in range(2, 1_000_000))
    return _of_rows(folder, rows)
