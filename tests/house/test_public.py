"""What `import fedsim` offers explains itself, its examples run, and type checkers know it."""

import doctest
import inspect
import re
import subprocess
import sys

import pytest

import fedsim
from fedsim import compose

IMPORTED = {"TYPE_CHECKING", "ModuleType", "gc", "import_module"}  # by fedsim/__init__.py itself
NAMES = [
    name
    for name in dir(fedsim)
    if not name.startswith("_")
    and name not in IMPORTED
    and not inspect.ismodule(getattr(fedsim, name))
]
DECORATORS = [name for name in NAMES if name in vars(compose)]
# Whose example is short enough for a doctest.
CENTRAL = ["Arrays", "Result", "aggregate", "as_model", "run", "transmit"]
METHODS = [
    *(fedsim.Result.model, fedsim.Result.plot, fedsim.Result.state),
    *(fedsim.Scenario.error, fedsim.Scenario.hash, fedsim.Scenario.resolved),
]


def qualified_name(thing) -> str:
    return getattr(thing, "__qualname__", str(thing))


def described(thing) -> set[str]:
    """Names that stand under `Args:` or `Attributes:` of a docstring."""
    docstring = inspect.getdoc(thing) or ""
    found = re.findall(r"^(?:Args|Attributes):\n((?:  .*\n?|\n)+)", docstring, re.M)
    return {name for section in found for name in re.findall(r"^  (\w+): \S", section, re.M)}


def test_every_name_is_there_and_type_checkers_see_the_same_ones(root):
    text = (root / "fedsim/__init__.py").read_text()
    seen = re.findall(r"^    from fedsim\.[\w.]+ import (\w+) as \1$", text, re.M)
    assert set(seen) >= set(NAMES)  # of tools that are not installed, too
    with pytest.raises(AttributeError, match="no attribute 'agregate'"):
        fedsim.agregate
    with pytest.raises(AttributeError, match=r"'plot'; results and comparisons have \.plot\(\)"):
        fedsim.plot


@pytest.mark.parametrize(
    "thing", [*(getattr(fedsim, name) for name in NAMES), *METHODS], ids=qualified_name
)
def test_its_docstring_is_a_sentence_with_every_parameter_and_what_comes_back(thing):
    docstring = inspect.getdoc(thing)
    first, *rest = docstring.split("\n")
    assert first.endswith((".", ":")) and len(first) <= 120 and (not rest or rest[0] == "")
    assert not first.startswith(f"{thing.__name__}(")  # what a NamedTuple says of itself

    signature = inspect.signature(thing)
    parameters = set(signature.parameters) - {"self"}
    if isinstance(thing, type) and not issubclass(thing, tuple | Exception):
        parameters |= {name for name, value in vars(thing).items() if isinstance(value, property)}
    assert parameters <= described(thing)

    returns_nothing = isinstance(thing, type) or signature.return_annotation is None
    says_what = re.search(r"^Returns:\n  \S", docstring, re.M)
    assert returns_nothing or not described(thing) or says_what


@pytest.mark.parametrize("name", CENTRAL)
def test_central_ones_have_an_example_that_pytest_runs(name):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(fedsim, name)))


@pytest.mark.long
def test_a_user_s_file_runs_as_it_is_typed(root, tmp_path):
    command = [sys.executable, "tests/plugins/typed.py", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0 and "'strenth'" in done.stdout, done.stderr
