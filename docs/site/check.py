"""Links of the built site: each leads to a page that is there, and to an anchor that it has.

Pages may link to other sites, but load nothing from there: no script, style, font or picture.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SCRIPT = re.compile(r"(<script[^>]*>).*?</script>", re.S)
TAG = re.compile(r"<([a-z][\w-]*)\s([^<>]*)>")
ATTRIBUTE = re.compile(r"\b(href|src|srcset|id|name|rel)=\"([^\"]*)\"")
STYLE_ADDRESS = re.compile(r"(?:url\(|@import)\s*[\"']?(https?:)?//")
LOADED = {"script", "img", "iframe", "link", "source", "video", "audio", "object", "embed"}
ELSEWHERE = {"canonical", "prev", "next"}  # links that no reader follows
MADE_BY_SCRIPT = {"__search", "__drawer", "__toc"}


class Page(NamedTuple):
    """A page of the site.

    Attributes:
      anchors: the names that links may lead to.
      links: its links, each with the tag that has it.
    """

    anchors: set[str]
    links: set[tuple[str, str]]


def faults(site: Path) -> list[str]:
    """A line for every dead link, and for everything that a page loads from elsewhere."""
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    pages = {name: _page(site / name) for name in sorted(files) if name.endswith(".html")}
    lines: list[str] = []
    for name, page in pages.items():
        lines += _faults_of(name, page, pages, files)
    for name in sorted(files):
        if name.endswith(".css") and STYLE_ADDRESS.search((site / name).read_text("utf-8")):
            lines.append(f"{name}: loads something from elsewhere")
    return lines


def _page(path: Path) -> Page:
    text = SCRIPT.sub(r"\1</script>", path.read_text(encoding="utf-8"))
    page = Page(set(), set())
    for tag in TAG.finditer(text):
        attributes = dict(ATTRIBUTE.findall(tag[2]))
        if "id" in attributes:
            page.anchors.add(unescape(attributes["id"]))
        for name in ("href", "src", "srcset"):
            if name in attributes and attributes.get("rel") not in ELSEWHERE:
                page.links.add((tag[1], unescape(attributes[name])))
    return page


def _faults_of(
    where: str, page: Page, pages: Mapping[str, Page], files: Collection[str]
) -> Iterator[str]:
    """A line for every fault of a page.

    Args:
      where: the name of the page.
      page: its anchors and links.
      pages: all pages by name.
      files: the names of all files.
    """
    for tag, link in sorted(page.links):
        address = urlsplit(link)
        if address.scheme or address.netloc:
            if tag in LOADED and address.scheme != "data":
                yield f"{where}: loads {link}"
            continue
        target = _target(where, unquote(address.path))
        if target not in files:
            target = posixpath.join(target, "index.html").removeprefix("./")
        if target not in files:
            yield f"{where}: nothing is at {link}"
        elif address.fragment and target in pages:
            anchor = unquote(address.fragment)
            if anchor not in pages[target].anchors and anchor not in MADE_BY_SCRIPT:
                yield f"{where}: nothing has the anchor of {link}"


def _target(where: str, path: str) -> str:
    """The name of the file that a link leads to; a slash in front is the root of the site."""
    if not path:
        return where
    if path.startswith("/"):
        return posixpath.normpath(path.lstrip("/") or ".")
    return posixpath.normpath(posixpath.join(posixpath.dirname(where), path))
