"""Fixtures and selections shared by all tests."""

import gc
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
# Tests import cases from each other.
sys.path[:0] = sorted({str(path.parent) for path in TESTS.rglob("test_*.py")})
os.environ["NPROC"] = "4"  # the size of XLA's thread pool: the same bits on any machine
# Bytecode and compiled programs are cached, for the other workers, child processes and the next
# session: oracle cases of one problem share their programs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import pytest
from jaxtyping import install_import_hook

from fedsim.cli.entry import every_command
from fedsim.installed import fields, missing_requirements, present_fields
from fedsim.kinds import FAMILIES, names
from fedsim.machine import forget_programs
from fedsim.scenario.fits import traits
from fedsim.scenario.index import known, missing_field
from fedsim.scenario.plugins import ENABLED

# Scenarios whose comment says how to get their data; separate tests run them.
OWN_FILES = {"mnist_5k.yaml"}
# Tests that would take too long run as a fixed subset, or completely if this is set.
WHOLE = bool(os.environ.get("FEDSIM_WHOLE"))
# Client methods, and methods of the same names, that need a `topology`: tests/fields/graphs.
GRAPH_METHODS = frozenset(
    name for name, said in traits()["client"].items() if "graph" in said["needs"]
)
READERS = frozenset({"trust", "zeno"})  # rules that read samples of the server: test_own_samples.py
OF_ADAPTERS = frozenset({"lora_mean"})  # rules about leaves of an adapter: test_lora_mean.py


# Tests of a field whose requirement was taken out.
collect_ignore = [f"fields/{name}" for name in present_fields() if missing_requirements(name)]


def pytest_make_parametrize_id(val, argname):
    """Leave long bytes out of ids: their content (a time stamp) may differ between workers."""
    return argname if isinstance(val, bytes) and len(val) > 16 else None


QUICKLY_COMPILED = (
    "--xla_backend_optimization_level=0"
    " --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
)
"""Flags with which XLA compiles the small programs of tests in half of the time."""


class ExamplesOnlyWhereThereAre:
    """Leaves modules out whose docstrings have no example: looking for some takes seconds."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        path = collection_path
        if path.suffix != ".py" or path.name.startswith("test_"):
            return None
        return ">>>" not in path.read_text() or None


def pytest_configure(config):
    """Select tests marked long, too, if FEDSIM_WHOLE=1, whatever the command line says.

    Where no test marked `optimised` is selected, programs are compiled quickly, also those of
    processes that tests start. Annotations of arrays are enforced where long tests are selected.
    """
    config.pluginmanager.register(ExamplesOnlyWhereThereAre())
    if WHOLE:
        config.option.markexpr = ""
    selected = config.option.markexpr
    if "not long" not in selected:
        install_import_hook(["fedsim.tree", "fedsim.rules"], "beartype.beartype")
    is_quick = "not long" in selected or "not optimised" in selected
    if is_quick and "XLA_FLAGS" not in os.environ and _knows(QUICKLY_COMPILED):
        os.environ["XLA_FLAGS"] = QUICKLY_COMPILED


def pytest_collection_finish():
    """Let the garbage collector pass over what is there before the first test."""
    gc.collect()
    gc.freeze()


def _knows(flags: str) -> bool:
    """Whether the installed XLA has these flags; it ends a process that sets others."""
    read_flags = [sys.executable, "-c", "from jaxlib import _jax; _jax.CompileOptions()"]
    environment = {**os.environ, "XLA_FLAGS": flags}
    return subprocess.run(read_flags, capture_output=True, env=environment).returncode == 0


_MISSING = "|".join(set(known().values()) - fields().keys())
_MISSING_KINDS = "|".join(name for family, name in known() if missing_field(family, name))
_ASKS_FOR_MISSING = re.compile(
    rf"the field ({_MISSING}) (is not installed|needs )|No module named 'fedsim.fields.({_MISSING})"
    rf"|KeyError: '({_MISSING_KINDS})'"
)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip a test that asks for a field that was taken out."""
    report = (yield).get_result()
    if _MISSING and report.failed and _ASKS_FOR_MISSING.search(report.longreprtext):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, "asks for a field that is not installed")


DOCTESTS_THAT_NEED = {"fedsim.fields.privacy.counting.auditing": "jax_privacy"}
"""A module with docstring examples -> the package that they need and that no other test does."""

QUICK_EXAMPLES = 4
KINDS_WITH_EXAMPLES = ("fedsim/rules/", "fedsim/stages/")

SHARE = 48
"""Of a long test's cases, one in so many is selected."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config, items):
    """Select a fixed share of a test's cases; all if WHOLE.

    Of those marked `quick(n)`, one in n is in the fast part and the others are long; of a long
    test's cases, one in `SHARE` is played, or one in n if it is marked `share(n)` with a larger n.
    Of the examples in docstrings of kinds, one in `QUICK_EXAMPLES` is in the fast part.
    """
    if WHOLE:
        return
    skip_examples_of_missing_packages(items)
    for example in beyond_share([item for item in items if is_of_a_kind(item)], QUICK_EXAMPLES):
        example.add_marker(pytest.mark.long)
    for cases in by_test(items, is_quick):
        n = cases[0].get_closest_marker("quick").args[0]
        for case in beyond_share(cases, n):
            case.add_marker(pytest.mark.long)

    deselected = set()
    for cases in by_test(items, is_long):
        marks = filter(None, (case.get_closest_marker("share") for case in cases))
        n = max([SHARE, *(mark.args[0] for mark in marks)])
        deselected |= set(beyond_share(cases, n))
    items[:] = [item for item in items if item not in deselected]
    config.hook.pytest_deselected(items=list(deselected))


def is_of_a_kind(item) -> bool:
    """Whether it is the example in the docstring of a kind."""
    return isinstance(item, pytest.DoctestItem) and item.nodeid.startswith(KINDS_WITH_EXAMPLES)


def is_long(item) -> bool:
    return item.get_closest_marker("long") is not None


def is_quick(item) -> bool:
    return item.get_closest_marker("quick") is not None and not is_long(item)


def by_test(items: list, chosen: Callable) -> list[list]:
    """Return the chosen cases of every test."""
    tests: dict[str, list] = {}
    for item in filter(chosen, items):
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(tests.values())


def beyond_share(cases: list, n: int) -> list:
    """The cases of a test but one in n: always the same ones, and never all of them."""
    ordered = sorted(cases, key=lambda case: zlib.crc32(case.name.encode()))
    selected = -(-len(ordered) // n)  # rounded up
    return ordered[selected:]


def skip_examples_of_missing_packages(items: list) -> None:
    """Skip docstring examples that need a package that is not installed."""
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        package = DOCTESTS_THAT_NEED.get(item.nodeid.rpartition("::")[2].rpartition(".")[0])
        if package and importlib.util.find_spec(package) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {package}"))


if_whole = pytest.mark.skipif(not WHOLE, reason="takes long: played with FEDSIM_WHOLE=1")

# Whether all tools are there, by their commands in docs/cli.md, and all fields.
_COMMANDS = re.findall(r"^### (.+)$", (ROOT / "docs/cli.md").read_text(), re.M)
ALL_INSTALLED = every_command().keys() >= set(_COMMANDS) and not _MISSING
if_all_installed = pytest.mark.skipif(not ALL_INSTALLED, reason="is about all fields and tools")


def _sets_tables() -> bool:
    """Whether there is a TeX with what a paper's table needs."""
    if shutil.which("pdflatex") is None:
        return False
    return subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True).returncode == 0


if_tex = pytest.mark.skipif(not _sets_tables(), reason="there is no TeX with siunitx")


def shipped() -> list[Path]:
    """The scenarios that come with fedsim and need no data file of the user.

    The tasks of the suite and the networks of the bench are variations of one scenario, and have
    tests of their own.
    """
    paths = (ROOT / "scenarios").rglob("*.yaml")
    variations = ("suite", "networks")
    left_out = lambda path: path.name in OWN_FILES or path.parent.name in variations
    return sorted(path for path in paths if not left_out(path))


def own_kinds_of(family: str) -> dict[str, Callable]:
    """The kinds of a family that come with fedsim: tests of this process may have added others."""
    kinds = FAMILIES[family].items()
    return {kind: factory for kind, factory in kinds if factory.__module__.startswith("fedsim.")}


def some(cases, every: int = 2, start: int = 0) -> list:
    """Return a fixed share of the cases of a slow test, or all with FEDSIM_WHOLE=1."""
    return list(cases)[slice(None) if WHOLE else slice(start, None, every)]


def crossed(
    names, cases, always: tuple[str, ...] = ("fast part", "all together"), every: int = 6
) -> list:
    """Return pairs of name and case: the cases in `always`, and a different share of the others."""
    chosen = lambda i, j, case: WHOLE or case in always or (i + j) % every == 0
    return [
        (n, case) for i, n in enumerate(names) for j, case in enumerate(cases) if chosen(i, j, case)
    ]


def sampled(cases, every: int = 2, start: int = 0) -> list:
    """Return all cases; those outside a fixed share are long."""
    cases = list(cases)
    quick = range(start, len(cases), every)

    marked = []
    for i, case in enumerate(cases):
        if i in quick:
            marked.append(case)
        else:
            values = case if isinstance(case, tuple) else (case,)
            marked.append(pytest.param(*values, marks=pytest.mark.long))
    return marked


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker whole files, so that fixtures run once; idle workers steal from others."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def oracle(name: str) -> list[dict]:
    """Return the cases of a file in tests/oracles, with references such as `@a7` resolved."""
    document = json.loads((ROOT / "tests" / "oracles" / f"{name}.json").read_text())

    def fill(value):
        if isinstance(value, str) and value.startswith("@"):
            return document["arrays"][value[1:]]
        if isinstance(value, dict):
            return {k: fill(v) for k, v in value.items()}
        return value

    return [
        {**case, "inputs": fill(case["inputs"]), "expected": fill(case["expected"])}
        for case in document["cases"]
    ]


@pytest.fixture(scope="module", autouse=True)
def freed_programs():
    """Free compiled programs after a file, early enough that the next one does not exhaust XLA."""
    yield
    forget_programs(0.3)


@pytest.fixture
def own_kinds():
    """Forget the kinds that the test registers when it ends, so that others may use the names."""
    before, enabled = {family: dict(known) for family, known in FAMILIES.items()}, [*ENABLED]
    yield
    ENABLED[:] = enabled
    names._registrations[0] += 1  # what was derived of the families is stale
    for family, kinds in before.items():
        FAMILIES[family].clear()
        FAMILIES[family].update(kinds)


@pytest.fixture(scope="session", autouse=True)
def draw():
    """Let no run of this process draw pictures, which take most of a tiny run's time."""
    from fedsim.runs import derive

    original = derive.derived_files
    derive.derived_files = lambda *arguments: {}
    yield original
    derive.derived_files = original


@pytest.fixture
def pictures(draw, monkeypatch):
    """Let the runs of this test draw pictures."""
    from fedsim.runs import derive

    monkeypatch.setattr(derive, "derived_files", draw)
