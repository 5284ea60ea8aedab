"""What the files of a run directory are, and what the columns of its tables mean, in words: `disk/files.yaml`."""

import functools
from importlib.resources import files
from typing import Any

import yaml


@functools.cache
def meanings() -> dict[str, Any]:
    """`files`: name -> text; `tables`: name -> `about`, and `columns`: name -> text; `compared`: columns of comparisons."""
    text = files("fedsim.disk").joinpath("files.yaml").read_text(encoding="utf-8")
    loader = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # in C, a tenth of the time, where there is one
    return yaml.load(text, loader)


def meanings_of_column(name: str) -> dict[str, str]:
    """Table -> what its column of this name means, for every table that has one."""
    compared = meanings()["compared"]
    tables = {table: text["columns"] for table, text in meanings()["tables"].items()}
    return {
        **({"of a comparison": compared[name]} if name in compared else {}),
        **{table: columns[name] for table, columns in tables.items() if name in columns},
    }
