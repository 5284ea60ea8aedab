"""Template, styles and script as one file that opens offline.

Its content security policy lets the browser run and apply only what is in the file itself.
"""

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import jinja2
from markupsafe import Markup

from fedsim.report.element import breakable
from fedsim.report.pictures.looks import COLOURS, ON_DARK


@functools.cache
def _file(name: str) -> str:
    return resources.files("fedsim.report.page").joinpath(name).read_text(encoding="utf-8")


def rendered(
    content: dict[str, Any], name: str = "page", template: Traversable | None = None
) -> bytes:
    """A page.

    Args:
      name: of the template and the script; all pages share the styles of the report's.
      template: another template with that script.
    """
    style = _colours() + _file("page.css")
    if name != "page":
        style += _file(f"{name}.css")
    script = _file(f"{name}.js")

    text = _file(f"{name}.html") if template is None else template.read_text(encoding="utf-8")
    page = (
        _environment()
        .from_string(text)
        .render(
            **{"refresh": 0, **content},
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
        )
    )
    return page.encode()


def fragment(template: Traversable, **content: Any) -> Markup:
    """A part of a page, from its template."""
    text = template.read_text(encoding="utf-8")
    return Markup(_environment().from_string(text).render(content))


def _environment() -> jinja2.Environment:
    """Templates may include those of this folder; what they show is escaped."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters["breakable"] = breakable
    return environment


def _colours() -> str:
    """The colours of methods as variables, for light screens and paper, and for dark screens."""
    on_dark = f"@media screen and (prefers-color-scheme:dark){{{_variables(ON_DARK)}}}"
    return f"{_variables(COLOURS)}\n{on_dark}\n"


def _variables(colours: Sequence[str]) -> str:
    variables = [f"--s{rank}:{colour};" for rank, colour in enumerate(colours)]
    return f":root{{{''.join(variables)}}}"


def _policy(style: str, script: str) -> str:
    """The content security policy: nothing from elsewhere, no other script and no other style."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
