"""Everything that the site shows: the pages of docs/, and all that they link to."""

import subprocess
from pathlib import Path

import kept
from kind_pages import kind_page, linked, places
from links import rewritten
from making import make
from navigation import GUIDES
from notebooks import notebook_page
from places import GALLERY, ROOT, link, place_of

from fedsim.runs.gallery import gallery_of

LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
SHOWN = {*LANGUAGES, ".md", ".ipynb"}  # what a page of a folder links to
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"  # from the search
HEADING = b'<p class="small"><a href="../index.html">fedsim</a></p><h1>Kept runs</h1>'  # gallery
FIRST = "---\nsearch:\n  boost: 20\n---\n\n"  # in the search


class Content:
    """What the site shows.

    Attributes:
      pages: place -> text in Markdown.
      files: place -> a file that is copied.
      made: place -> the content of a file that is made here.
    """

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        self.made: dict[str, bytes] = {}
        self._tracked = _tracked()
        self._waiting: list[str] = []

    def publish(self, path: str) -> None:
        """Show a file or folder of the repository, and all that it links to."""
        if place_of(path) not in self.pages:
            self._waiting.append(path)

    def publish_waiting(self) -> None:
        """Show what was linked to, until nothing new is."""
        while self._waiting:
            path = self._waiting.pop()
            place = place_of(path)
            if not {place} & {*self.pages, *self.files, *self.made}:
                self._add(path, place)

    def _add(self, path: str, place: str) -> None:
        if place == GALLERY:
            self._add_gallery()
        elif not place.endswith(".md"):
            file = ROOT / path
            self.files[place] = file / "report.html" if file.is_dir() else file
        elif path.endswith(".ipynb"):
            self.pages[place] = FIRST + rewritten(notebook_page(path), path, place, self.publish)
        elif path.endswith(".md"):
            self.pages[place] = self._page(path, place)
        elif (ROOT / path).is_dir():
            self.pages[place] = self._folder(path, place)
        else:
            self.pages[place] = _source(path)

    def _page(self, path: str, place: str) -> str:
        # A page's title is the heading that it begins with.
        text = (ROOT / path).read_text(encoding="utf-8").removeprefix(make.MADE)
        text = rewritten(text, path, place, self.publish)
        if path.startswith("docs/catalogue/"):
            text = linked(text)
        if place in GUIDES:
            return FIRST + text
        return text if path.startswith("docs/") or path == "README.md" else HIDDEN + text

    def _add_gallery(self) -> None:
        """The gallery, and every kept report, which it links to."""
        folders = kept.folders()
        for folder in folders:
            self.publish(f"reports/{folder}")
        content, skipped = gallery_of(ROOT / "reports", names=folders, titles=kept.titles())
        assert not skipped, skipped
        self.made[GALLERY] = content.replace(b"<h1>reports</h1>", HEADING, 1)

    def _folder(self, path: str, place: str) -> str:
        """The files and folders that a folder of the repository holds, each with its page."""
        inside = {
            name.removeprefix(f"{path}/").partition("/")[0] for name in self._tracked_in(path)
        }
        lines = [f"{HIDDEN}# {path}\n"]
        for name in sorted(inside):
            inner = f"{path}/{name}"
            if Path(name).suffix in SHOWN:
                self.publish(inner)
                lines.append(f"- [`{name}`]({link(place_of(inner), place)})")
            else:
                lines.append(f"- `{name}`")
        return "\n".join(lines) + "\n"

    def _tracked_in(self, path: str) -> list[str]:
        return [name for name in self._tracked if name.startswith(f"{path}/")]


def content() -> Content:
    """Everything that the site shows."""
    shown = Content()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        shown.publish(str(page.relative_to(ROOT)))
    shown.publish("README.md")
    shown.publish("reports")
    for (family, kind), place in places().items():
        shown.pages[place] = kind_page(family, kind, shown.publish)
    shown.publish_waiting()
    return shown


def _source(path: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"{HIDDEN}# {path}\n\n``````{language}\n{text.rstrip()}\n``````\n"


def _tracked() -> list[str]:
    """The files under version control: what is lying around besides is not shown."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listed.stdout.split("\0")
