"""Template, styles and script as one file that opens offline, under a policy that lets nothing else run."""

import base64
import functools
import hashlib
import json
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup


@functools.cache
def _part(name: str) -> str:
    return resources.files("fedsim.report.page").joinpath(name).read_text(encoding="utf-8")


def rendered(shown: dict[str, Any], data: dict[str, list]) -> bytes:
    """The page.

    Args:
      shown: by the template; every text is escaped where it stands.
      data: drawn by the script, by the number of the picture.
    """
    style, script = _part("page.css"), _part("page.js")
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    options = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    template = jinja2.Environment(autoescape=True, **options).from_string(_part("page.html"))
    safe = {
        "style": Markup(style),
        "script": Markup(script),
        "data": Markup(embedded),
        "policy": policy,
    }
    return template.render(**shown, **safe).encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
