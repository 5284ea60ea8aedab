"""docs/make.py as a module: it has what the made pages of docs/ and those of the site share."""

import importlib.util

from places import ROOT

_spec = importlib.util.spec_from_file_location("docs_make", ROOT / "docs/make.py")
assert _spec and _spec.loader
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)
