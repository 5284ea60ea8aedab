"""The formulas in the pages that are written by hand."""

from html import escape
from html.parser import HTMLParser

from mathematics import typeset

AS_IT_IS = {"code", "pre", "a", "math", "script", "style", "h1", "h2", "h3", "h4", "svg"}


def with_formulas(html: str) -> str:
    """A page whose formulas in plain Unicode are MathML; code, links and headings stay."""
    writer = _Writer()
    writer.feed(html)
    writer.close()
    return "".join(writer.written)


class _Writer(HTMLParser):
    """Writes what it reads, with the formulas of its texts set."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.written: list[str] = []
        self.inside: list[str] = []  # elements whose text stays as it is

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """Write a tag."""
        del attrs
        if tag in AS_IT_IS:
            self.inside.append(tag)
        self.written.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        """Write a tag without content."""
        del tag, attrs
        self.written.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        """Write a closing tag."""
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()
        self.written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Write a text."""
        if self.inside and self.inside[-1] in ("script", "style"):
            self.written.append(data)
        elif self.inside:
            self.written.append(escape(data, quote=False))
        else:
            self.written.append(typeset(data, letters=False))

    def handle_comment(self, data: str) -> None:
        """Leave comments out."""
