"""Where a file of the repository is on the site."""

import posixpath
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "source"  # files that are not documentation, as pages of their own
GALLERY = "reports/index.html"
# Pages whose places do not follow from their paths: the site begins with the README.
PAGES = {
    "README.md": "index.md",
    "docs": "index.md",
    "docs/index.md": "idea.md",
    "reports": GALLERY,
    "reports/README.md": GALLERY,
}


def place_of(path: str) -> str:
    """The source of the page, or the file, that shows a file or folder of the repository.

    Args:
      path: relative to the repository; of a folder without a slash at its end.
    """
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        if path.endswith(".ipynb"):
            return f"{inside.removesuffix('.ipynb')}.md"
        return f"{inside}/index.md" if (ROOT / path).is_dir() else _index_or_page(inside)
    if path.startswith("reports/"):
        return f"{path}/report.html" if (ROOT / path).is_dir() else path
    # mkdocs leaves out what begins with a dot
    shown = f"{SOURCE}/{path}".replace("/.", "/dot-")
    if (ROOT / path).is_dir():
        return f"{shown}/index.md"
    return shown if path.endswith(".md") else f"{shown}.md"


def _index_or_page(name: str) -> str:
    """Of a page in docs/: with pages below it, it is their index."""
    folder = name.removesuffix(".md")
    has_pages = (ROOT / "docs" / folder).is_dir() or folder.startswith("catalogue/")
    return f"{folder}/index.md" if has_pages else name


def link(place: str, page: str) -> str:
    """The relative link from a page to a place."""
    return posixpath.relpath(place, posixpath.dirname(page) or ".")


def repository_path(target: str, page: str) -> str:
    """The file that a relative link on a page of the repository leads to.

    Args:
      target: the link without its anchor.
      page: the path of the page in the repository.
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
