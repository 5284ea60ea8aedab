"""Links on pages of the repository: on the site they lead to where their files are there."""

import re
from collections.abc import Callable

from places import ROOT, link, place_of, repository_path

# Code, whose brackets are not links, and the target of a link or of a picture.
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
TARGET = re.compile(
    r"(?<=\]\()(?P<markdown>[^)\s]+)(?=\))"
    r"|(?:(?<= src=\")|(?<= srcset=\"))(?P<picture>[^\"]+)(?=\")"
)
ELSEWHERE = re.compile(r"[a-z]+:|#|//")


class DeadLink(Exception):
    """A link to a file that is not there."""


def rewritten(markdown: str, path: str, page: str, publish: Callable[[str], None]) -> str:
    """A page whose links lead to places on the site.

    Args:
      markdown: its text.
      path: where it is in the repository; its links are relative to that.
      page: where it is on the site.
      publish: called with the path of every file and folder that it links to.

    Raises:
      DeadLink: for a link to a file that is not there.
    """

    def moved(match: re.Match) -> str:
        target, hash_sign, anchor = match[0].partition("#")
        if ELSEWHERE.match(match[0]):
            return match[0]
        linked = repository_path(target, path)
        if not (ROOT / linked).exists():
            raise DeadLink(f"{path}: nothing is at {match[0]}")
        publish(linked)
        # Raw HTML is copied as it is: there, a page is a folder further down.
        raw = "../" if match["picture"] and not page.endswith("index.md") else ""
        return raw + link(place_of(linked), page) + hash_sign + anchor

    parts: list[str] = []
    end = 0
    for code in CODE.finditer(markdown):
        parts += [TARGET.sub(moved, markdown[end : code.start()]), code[0]]
        end = code.end()
    parts.append(TARGET.sub(moved, markdown[end:]))
    return "".join(parts)
