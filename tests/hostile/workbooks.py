"""Excel workbooks of a stranger's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.registry import Attack, attacks, opened, pickled
from workbooks import HEAD, MAIN, ROWS, STRINGS, parts, sheet, written

ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
TEXT_OF_ENTITY = f'<sst xmlns="{MAIN}"><si><t>&a;</t></si><si><t>y</t></si></sst>'
FORMULA = '<row r="2"><c><f>WEBSERVICE("http://x")</f></c><c><v>0</v></c></row>'
PLAIN = parts()


def replaced(**members: Any) -> dict[str, Any]:
    """A workbook with other members: `strings`, `styles`, `book`, `sheet`."""
    names = {
        "strings": "xl/sharedStrings.xml",
        "styles": "xl/styles.xml",
        "book": "xl/workbook.xml",
        "sheet": "xl/worksheets/sheet1.xml",
    }
    return PLAIN | {names[name]: content for name, content in members.items()}


def of_sheet(rows: str, after: str = "", before: str = "") -> dict[str, Any]:
    return parts({"one": sheet(rows, after, before)})


WORKBOOKS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "entities in texts": lambda f: replaced(strings=ENTITIES + TEXT_OF_ENTITY),
    "a file in texts": lambda f: replaced(strings=OUTSIDE + TEXT_OF_ENTITY),
    "entities in another encoding": lambda f: replaced(
        strings=(ENTITIES + TEXT_OF_ENTITY).encode("utf-16")
    ),
    "entities in a sheet": lambda f: replaced(sheet=ENTITIES + sheet(HEAD + ROWS)),
    "entities in formats": lambda f: replaced(styles=ENTITIES + f'<styleSheet xmlns="{MAIN}"/>'),
    "entities among the sheets": lambda f: replaced(book=ENTITIES + PLAIN["xl/workbook.xml"]),
    "a text that is not there": lambda f: of_sheet(HEAD + '<row><c t="s"><v>9</v></c></row>'),
    "a truth value that is none": lambda f: of_sheet(HEAD + '<row><c t="b"><v>x</v></c></row>'),
    "a formula": lambda f: of_sheet(HEAD + FORMULA + ROWS),
    "a row far away": lambda f: of_sheet(HEAD + '<row r="999999999"><c><v>1</v></c></row>'),
    "a row without a number": lambda f: of_sheet(HEAD + '<row r="x"/>' + ROWS),
    "a column far away": lambda f: of_sheet(HEAD + '<row r="2"><c r="ZZZZ2"><v>1</v></c></row>'),
    "a row of the widest": lambda f: of_sheet(
        HEAD + "".join(f'<row r="{i}"><c r="XFD{i}"/></row>' for i in range(2, 2000))
    ),
    "a format that is not there": lambda f: of_sheet(HEAD + '<row><c s="x"><v>1</v></c></row>'),
    "a number of a million digits": lambda f: of_sheet(
        HEAD + f"<row><c><v>{'9' * 1_000_000}</v></c><c><v>0</v></c></row>"
    ),
    "merged cells": lambda f: of_sheet(
        HEAD + ROWS, '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'
    ),
    "merged cells nowhere": lambda f: of_sheet(
        HEAD + ROWS, '<mergeCells><mergeCell ref="nowhere"/></mergeCells>'
    ),
    "terminal commands for a name": lambda f: parts(
        strings=STRINGS.replace("<t>y", "<t>&#x9b;0;owned")
    ),
    "no sheets": lambda f: parts({}),
    "a sheet that is text": lambda f: replaced(sheet="a,y\n1,0\n"),
    "a sheet that is cut off": lambda f: replaced(sheet=sheet(HEAD + ROWS)[:-60]),
    "a sheet that is a pickle": lambda f: replaced(sheet=pickled(f)),
    "texts that are a sheet": lambda f: replaced(strings=sheet(HEAD + ROWS)),
    "nothing but a name": lambda f: {"xl/workbook.xml": ""},
    "a link out of the archive": lambda f: (
        PLAIN
        | {
            "xl/_rels/workbook.xml.rels": PLAIN["xl/_rels/workbook.xml.rels"].replace(
                "worksheets/sheet1.xml", "../../../../etc/passwd"
            )
        }
    ),
}
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[:400],
    "without its list": lambda content: content[:-40],
    "with other bytes": lambda content: content[:300] + bytes(40) + content[340:],
}


def _of_workbook(name: str) -> Attack:
    def make(folder: Path) -> Callable[[], Any]:
        written(folder / "t.xlsx", WORKBOOKS[name](folder))
        return _opened(folder)

    return make


def _of_damage(name: str) -> Attack:
    def make(folder: Path) -> Callable[[], Any]:
        path = written(folder / "t.xlsx", PLAIN)
        path.write_bytes(DAMAGED[name](path.read_bytes()))
        return _opened(folder)

    return make


def _opened(folder: Path) -> Callable[[], Any]:
    (folder / "s.yaml").write_text("name: x\ndata: {kind: xlsx, path: t.xlsx, clients: 2}\n")
    return opened(folder / "s.yaml")


attacks("workbook", WORKBOOKS, _of_workbook)
attacks("damaged workbook", DAMAGED, _of_damage)
