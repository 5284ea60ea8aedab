"""The versions that CI installs: everything pyproject.toml needs, none too old, used by .ci/run."""

import re
import runpy
import tomllib

import pytest
from packaging.requirements import Requirement

INSTALLED_BY_CI = ("dev", "tools", "tests", "docs", "privacy")


@pytest.fixture(scope="module")
def freeze(root):
    return runpy.run_path(str(root / ".ci/freeze.py"))


@pytest.fixture(scope="module")
def pins(root):
    lines = (root / ".ci/constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_every_requirement_has_a_version_that_its_floor_allows(root, freeze, pins):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [
        *project["dependencies"],
        *(text for extra in INSTALLED_BY_CI for text in extras[extra]),
    ]
    for requirement in map(Requirement, texts):
        assert requirement.specifier.contains(pins[freeze["plain"](requirement.name)]), requirement


def test_lines_are_names_and_versions_alone(pins, freeze):
    """No path, no address, nothing that a virtual environment brings along."""
    for name, version in pins.items():
        assert re.fullmatch(r"[a-z0-9-]+", name) and re.fullmatch(r"[0-9][0-9a-z.!]*", version)
    assert not pins.keys() & (freeze["BUNDLED"] | {freeze["PACKAGE"]})
    assert list(pins) == sorted(pins)
