"""Bombs that are Excel workbooks."""

import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile.bombs import bomb
from workbooks import HEAD, MAIN, ROWS, STRINGS, parts, sheet, written

SECTION = {"kind": "xlsx", "path": "t.xlsx"}
NOISE = random.Random(0)


def _with(folder: Path, **members: str) -> dict[str, Any]:
    names = {"strings": "xl/sharedStrings.xml", "styles": "xl/styles.xml"}
    named = {names[name]: content for name, content in members.items()}
    written(folder / "t.xlsx", parts() | named)
    return SECTION


def _noise() -> str:
    """Bytes that do not pack, so that what stands beside them unpacks to 100 times the size."""
    return f"<!--{NOISE.randbytes(2000).hex()}-->"


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
def workbook_of_many_cells(folder: Path) -> dict[str, Any]:
    row = "<row>" + "<c><v>1</v></c>" * 20 + "</row>"
    return _of_rows(folder, (row * 1000 + _noise() for _ in range(600)))


@bomb
def workbook_of_wide_rows(folder: Path) -> dict[str, Any]:
    rows = (f'<row r="{i}"><c r="XFD{i}"/></row>' for i in range(2, 1_000_000))
    return _of_rows(folder, rows)


@bomb
def workbook_of_many_texts(folder: Path) -> dict[str, Any]:
    texts = "".join("<si/>" * 40_000 + _noise() for _ in range(200))
    return _with(folder, strings=f'<sst xmlns="{MAIN}">{STRINGS}{texts}</sst>')


@bomb
def workbook_of_one_long_text(folder: Path) -> dict[str, Any]:
    text = "".join("x" * 800_000 + NOISE.randbytes(4000).hex() for _ in range(250))
    return _with(folder, strings=f'<sst xmlns="{MAIN}">{STRINGS}<si><t>{text}</t></si></sst>')


@bomb
def workbook_of_one_long_tag(folder: Path) -> dict[str, Any]:
    text = "".join("x" * 800_000 + NOISE.randbytes(4000).hex() for _ in range(250))
    return _with(folder, strings=f'<sst xmlns="{MAIN}" a="{text}">{STRINGS}</sst>')


@bomb
def workbook_of_formats(folder: Path) -> dict[str, Any]:
    formats = "".join("<xf/>" * 40_000 + _noise() for _ in range(100))
    cells = f"<cellXfs>{formats}</cellXfs>"
    return _with(folder, styles=f'<styleSheet xmlns="{MAIN}">{cells}</styleSheet>')


@bomb
def workbook_of_entities(folder: Path) -> dict[str, Any]:
    entities = '<!ENTITY e0 "haha">'
    for i in range(1, 10):
        entities += f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">'
    texts = f'<sst xmlns="{MAIN}">{STRINGS}<si><t>&e9;</t></si></sst>'
    return _with(folder, strings=f"<!DOCTYPE sst [{entities}]>{texts}")


@bomb
def workbook_of_rules(folder: Path) -> dict[str, Any]:
    rule = '<conditionalFormatting sqref="A1"><cfRule type="expression"/></conditionalFormatting>'
    rules = "".join(rule * 4_000 + _noise() for _ in range(100))
    written(folder / "t.xlsx", parts({"one": sheet(HEAD + ROWS, rules)}))
    return SECTION


@bomb
def workbook_of_members(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(written(folder / "t.xlsx", parts()), "a") as archive:
        for i in range(30_000):
            archive.writestr(f"xl/{i}.xml", "<x/>")
    return SECTION
