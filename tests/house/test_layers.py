"""Each package imports only those to its left."""

import functools
import re
from pathlib import Path

import pytest

from fedsim.installed import present_fields, tools

pytestmark = pytest.mark.essential

# Their folders may be taken out.
ROOMS = ("fields", "tools")
LAYERS = (
    *("_version", "spelling", "errors", "installed", "field", "synonyms", "limits", "machine"),
    *("kinds", "tree", "types", "compose", "disk"),
    *("FAMILY", "engine", "scenario", "assemble", "study", "report", "runs", "cli"),
    *("fields", "tools", "__main__"),
)
FAMILIES = {"sources", "data", "models", "losses", "clients", "codecs", "stages", "rules", "fleet"}
# The only imports between families: partitions read data sets, and the plan reads
# a federation's sizes and traces of devices.
ALLOWED = {("fleet", "data"), ("fleet", "sources"), ("data", "sources")}
ONLY = {
    "pandas": {"disk", "sources", "study", "report", "runs", "cli"},
    "matplotlib": {"report"},
    "click": {"cli"},
    "pydantic": {"scenario", "assemble", "runs"},
    "rich": {"report", "runs", "cli"},
    "yaml": {"scenario", "runs"},
    **{tracker: set() for tracker in ("tensorboardX", "mlflow", "wandb")},
    **{package: {"runs"} for package in ("dask", "distributed")},
}


IMPORT = re.compile(r"^ *(?:from (\S+) )?import (\([^)]*\)|[^#\n]*)", re.M)


def package_of(parts: tuple[str, ...]) -> str:
    return Path(parts[0]).stem if parts else ""


@functools.cache
def imports(path: Path) -> list[str]:
    """The modules, and the names in modules, that a file imports."""
    names = []
    code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.S)
    for module, imported in IMPORT.findall(code):
        each = re.findall(r"([\w.]+)(?: as \w+)?", imported)
        names += [module, *(f"{module}.{name}" for name in each)] if module else each
    return names


def rank(name: str) -> int:
    return LAYERS.index("FAMILY" if name in FAMILIES else name)


def modules(root):
    folder = root / "fedsim"
    return [
        (package_of(p.relative_to(folder).parts), p)
        for p in sorted(folder.rglob("*.py"))
        if p.name != "__init__.py" or p.parent != folder
    ]


def test_imports_point_left(root):
    for here, path in modules(root):
        if here == "field":  # it imports types for its annotations alone
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "fedsim" or len(parts) < 2 or parts[1].startswith("__"):
                continue
            there = parts[1]
            is_left = rank(there) < rank(here) or (here, there) in ALLOWED
            assert there == here or is_left, f"{path}: {here} imports {there}"


def room_and_folder(parts: tuple[str, ...]) -> str:
    """`fields.graphs` of the parts of a path below `fedsim`; of a file of no folder, its name."""
    return ".".join(parts[:2]) if parts[0] in ROOMS and len(parts) > 2 else ""


def test_nobody_names_a_field_or_a_tool_but_those_that_say_so(root):
    """In no form: neither by an import nor by a name in a string."""
    packages = {"fields": present_fields(), "tools": tools()}
    every_name = "|".join([*packages["fields"], *packages["tools"]]) or "(?!)"
    any_package = re.compile(rf"\b({'|'.join(ROOMS)})[./]({every_name})\b")
    for _, path in modules(root):
        here = room_and_folder(path.relative_to(root / "fedsim").parts)
        may = {here}
        if here:
            room, name = here.split(".")
            requires = getattr(packages[room][name], "REQUIRES", ())
            may |= {f"{room}.{each}" for room in ROOMS for each in requires}
        named = {f"{room}.{name}" for room, name in any_package.findall(path.read_text())}
        assert named <= may, path


def test_libraries_stay_in_their_packages(root):
    for here, path in modules(root):
        for name in imports(path):
            packages = ONLY.get(name.split(".")[0])
            allowed = packages is None or here in packages or here in ROOMS
            assert allowed, f"{path} imports {name}"


def test_plan_and_data_are_numpy_only(root):
    for here, path in modules(root):
        if here in ("sources", "data", "fleet"):
            assert not any(name.split(".")[0] in ("jax", "optax") for name in imports(path)), path
