"""Notebooks as pages: their text, their code, and what they showed when they were last run."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from places import ROOT

BLANK = re.compile(r"\n\s*\n")  # which would end a block of HTML
FOLDED = '<details markdown="1"><summary>Solution</summary>'


def notebook_page(path: str) -> str:
    """A notebook in Markdown.

    Args:
      path: in the repository.
    """
    notebook = json.loads((ROOT / path).read_text(encoding="utf-8"))
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source:
            shown = [_fenced(source, "python"), *_outputs(cell)]
            is_solution = "solution" in cell["metadata"].get("tags", ())
            parts += [FOLDED, *shown, "</details>"] if is_solution else shown
    return "\n\n".join(parts) + "\n"


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    """What a cell showed: a table, a picture, or text."""
    for output in cell["outputs"]:
        shown = output.get("data", {})
        if "text/html" in shown:
            html = BLANK.sub("\n", "".join(shown["text/html"]))
            yield f'<div class="output">{html}</div>'
        elif "image/png" in shown:
            picture = "".join(shown["image/png"]).replace("\n", "")
            yield f'<img class="output" alt="picture" src="data:image/png;base64,{picture}">'
        elif output["output_type"] == "error":
            yield _fenced(f"{output['ename']}: {output['evalue']}", "text")
        else:
            yield _fenced("".join(shown.get("text/plain") or output["text"]), "text")


def _fenced(text: str, language: str) -> str:
    return f"``````{language}\n{text.rstrip()}\n``````"
