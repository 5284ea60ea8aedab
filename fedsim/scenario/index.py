"""Which field has which kinds and keys, also of fields that were taken out.

`python -m fedsim.scenario.index` writes `fields/index.csv`, from which a scenario that asks for a
field that is not installed is told its name.
"""

import csv
import functools
from collections.abc import Iterator

from fedsim.installed import FIELDS, ROOT, added, fields, missing_requirements, present_fields
from fedsim.kinds import FAMILIES
from fedsim.kinds.shipped import home_of
from fedsim.scenario.added import keys_of_fields

FILE = ROOT / FIELDS / "index.csv"
# In place of a family:
KEY = "key"
SCORE = "score"
NEED = "need"  # of a rule
ENTRIES = {"SCORES": SCORE, "NEEDS": NEED}


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield (family, name, field) of what fields have; `key` and the like are families, too."""
    by_package = {package.__name__: name for name, package in fields().items()}
    for family, kinds in FAMILIES.items():
        for kind, factory in kinds.items():
            home = home_of(factory)
            if home in by_package:
                yield family, kind, by_package[home]
    for package, keys in keys_of_fields():
        for name in keys.names():
            yield KEY, name, by_package[package]
    for entry, family in ENTRIES.items():
        for package, names in added(entry):
            for name in names:
                yield family, name, by_package[package]


@functools.cache
def known() -> dict[tuple[str, str], str]:
    """Return (family or `key`, name) -> field of all kinds and keys, installed or not."""
    with FILE.open(encoding="utf-8", newline="") as lines:
        return {(row["family"], row["name"]): row["field"] for row in csv.DictReader(lines)}


def missing_field(family: str, name: str) -> str:
    """Return the field that has a kind, a key and so on, if it is not installed; else empty."""
    field = known().get((family, name), "")
    return "" if field in fields() else field


def remedy(name: str) -> str:
    """Return what to say of a name that only a field has that is not installed; else empty."""
    for family, each in known():
        if each == name and (field := missing_field(family, each)):
            return f"; {refusal(field)}"
    return ""


def refusal(field: str) -> str:
    """Return what to say of a field that is not installed, or lacks one that it needs."""
    if field not in present_fields():
        return f"the field {field} is not installed"
    lacks = " and ".join(missing_requirements(field))
    return f"the field {field} needs {lacks}, which is not installed"


if __name__ == "__main__":
    with FILE.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["family", "name", "field"])
        writer.writerows(rows())
