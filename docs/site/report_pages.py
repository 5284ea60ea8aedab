"""The pages around the kept reports."""

import json
from typing import Any

from places import ROOT


def record_of(folder: str) -> dict[str, Any]:
    """The `run.json` of a kept run.

    Args:
      folder: in reports.
    """
    return json.loads((ROOT / "reports" / folder / "run.json").read_text(encoding="utf-8"))


def report_page(folder: str, record: dict[str, Any]) -> str:
    """A page that embeds the page of a kept run.

    Args:
      folder: in reports.
      record: its `run.json`.
    """
    headline = (record.get("verdict") or [""])[0]
    return (
        f"---\nhide: [toc]\n---\n\n# {record['scenario']['name']}\n\n{headline}\n\n"
        f'<p><a href="report.html">The page alone</a></p>\n'
        f'<iframe class="report" src="report.html" title="Report of {folder}"></iframe>\n'
    )
