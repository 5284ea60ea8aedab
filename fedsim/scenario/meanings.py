"""What the files of a run directory are, and what their columns mean: `files.yaml`."""

import functools
from importlib.resources import files
from typing import Any

import yaml

from fedsim.installed import folder_of, packages

FILE = "files.yaml"


@functools.cache
def meanings() -> dict[str, Any]:
    """Return the texts of `disk/files.yaml`, with the tables of fields and tools.

    Returns:
      `files`: name -> text; `tables`: name -> `about` and `columns`, name -> text; `compared`: name
      -> text, of the columns of comparisons.
    """
    texts = _texts("fedsim.disk")
    for package in packages():
        if (folder_of(package) / FILE).exists():
            _add(texts, _texts(package.__name__))
    return texts


def _add(texts: dict[str, Any], others: dict[str, Any]) -> None:
    """Add texts to those that are there, mapping by mapping."""
    for name, value in others.items():
        if isinstance(value, dict):
            _add(texts.setdefault(name, {}), value)
        else:
            texts[name] = value


def _texts(package: str) -> dict[str, Any]:
    text = files(package).joinpath(FILE).read_text(encoding="utf-8")
    # libyaml, which some installations lack, takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, loader)


def meanings_of_column(name: str) -> dict[str, str]:
    """Return table -> what a column means there, for every table that has it."""
    texts: dict[str, str] = {}
    compared = meanings()["compared"]
    if name in compared:
        texts["of a comparison"] = compared[name]
    for table, description in meanings()["tables"].items():
        if name in description["columns"]:
            texts[table] = description["columns"][name]
    return texts
