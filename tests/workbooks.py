"""Excel workbooks as programs write them, and as no program does: XML in a zip."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
ROWS = "<row><c><v>1</v></c><c><v>0</v></c></row>" * 20
HEAD = '<row r="1"><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
STRINGS = "<si><t>a</t></si><si><t>y</t></si>"


def sheet(rows: str, after: str = "", before: str = "") -> str:
    """A sheet with these rows, and with elements around them."""
    return f'<worksheet xmlns="{MAIN}">{before}<sheetData>{rows}</sheetData>{after}</worksheet>'


def parts(
    sheets: Mapping[str, str] | None = None, strings: str = STRINGS, styles: str = ""
) -> dict[str, str]:
    """The members of a workbook.

    Args:
      sheets: the XML of each sheet, by its name.
      strings: the shared texts.
      styles: elements of its formats.
    """
    sheets = {"one": sheet(HEAD + ROWS)} if sheets is None else sheets
    entries = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="r{i}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    kinds = {
        "/xl/workbook.xml": f"{TYPE}.sheet.main+xml",
        "/xl/sharedStrings.xml": f"{TYPE}.sharedStrings+xml",
        "/xl/styles.xml": f"{TYPE}.styles+xml",
    }
    overrides = "".join(
        f'<Override PartName="{part}" ContentType="{kind}"/>' for part, kind in kinds.items()
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{overrides}</Types>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{entries}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}'
        "</Relationships>",
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{strings}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}">{styles}</styleSheet>',
    }
    for i, content in enumerate(sheets.values(), 1):
        members[f"xl/worksheets/sheet{i}.xml"] = content
    return members


def written(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """Write a workbook of these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path
