"""Fixtures shared by all tests; array annotations are enforced here and nowhere else."""

import json
import os
import sys
import zlib
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
sys.path[:0] = sorted(
    {str(path.parent) for path in TESTS.glob("*/test_*.py")}
)  # tests take cases from one another
os.environ["NPROC"] = "4"  # the size of XLA's thread pool: the same bits on any machine
# What one process has compiled, a hundred others need not: Python's modules, and the programs that oracle cases of one
# problem share, which are found again by the other workers and the next session.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import pytest
from jaxtyping import install_import_hook

with install_import_hook(["fedsim.tree", "fedsim.rules"], "beartype.beartype"):
    import fedsim.rules
    import fedsim.tree  # noqa: F401

from fedsim.machine import forget_programs

collect_ignore = ["peers"]  # run by hand, by a Python that has other software
# What would make CI too long runs as a fixed subset there, and whole when this is set.
OWN_FILES = {
    "mnist_5k.yaml"
}  # scenarios whose comment says how to get their data; tests of their own run them
WHOLE = bool(os.environ.get("FEDSIM_WHOLE"))
READERS = frozenset({"trust", "zeno"})  # rules that read samples of the server: test_own_samples.py


def pytest_configure(config):
    """FEDSIM_WHOLE=1 plays what is marked long as well, whatever the command line says."""
    if WHOLE:
        config.option.markexpr = ""


_durations: dict[str, float] = {}


def pytest_runtest_logreport(report):
    """Seconds of every case, its fixtures included, for `python -m tests.slowest`."""
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session):
    """Keep them beside those of earlier runs, where this process is not a worker of another."""
    if hasattr(session.config, "workerinput") or not _durations:
        return
    path = ROOT / ".pytest_cache" / "durations.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**known, **_durations}))


SHARES = {12: 4, 6: 3, 3: 2}
"""Cases of a long test, at least -> one in so many is played."""


def pytest_collection_modifyitems(config, items):
    """Of a long test with many cases a fixed share is played, that of `SHARES` or of `share(n)`; all with FEDSIM_WHOLE=1."""
    if WHOLE:
        return
    tests: dict[str, list] = {}
    for item in items:
        if item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {item for cases in tests.values() for item in not_played(cases)}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def not_played(cases: list) -> list:
    """The cases of a test beyond its share: always the same ones, and not all of them."""
    number = max((n for least, n in SHARES.items() if len(cases) >= least), default=1)
    marks = filter(None, (case.get_closest_marker("share") for case in cases))
    ordered = sorted(cases, key=lambda case: zlib.crc32(case.name.encode()))
    return ordered[-(-len(ordered) // max([number, *(mark.args[0] for mark in marks)])) :]


if_whole = pytest.mark.skipif(not WHOLE, reason="takes long: played with FEDSIM_WHOLE=1")


def shipped() -> list[Path]:
    """The scenarios that come with fedsim and need no data file of the reader's own."""
    paths = (ROOT / "scenarios").rglob("*.yaml")
    return sorted(path for path in paths if path.name not in OWN_FILES)


def some(cases, every: int = 2, start: int = 0) -> list:
    """A fixed share of the cases of a test that takes long, or all of them where they are asked for."""
    return list(cases)[slice(None) if WHOLE else slice(start, None, every)]


def crossed(
    names, cases, always: tuple[str, ...] = ("fast part", "all together"), every: int = 6
) -> list:
    """Pairs of a name and a case: of each name the cases of `always` and a fixed share of the others, another for each."""
    chosen = lambda i, j, case: WHOLE or case in always or (i + j) % every == 0
    return [
        (n, case) for i, n in enumerate(names) for j, case in enumerate(cases) if chosen(i, j, case)
    ]


def sampled(cases, every: int = 2, start: int = 0, share: int = 1) -> list:
    """All cases; those outside a fixed share are marked long, and one in `share` of them is played there."""
    chosen, marks = (
        range(start, len(cases := list(cases)), every),
        (pytest.mark.long, pytest.mark.share(share)),
    )
    return [
        case
        if i in chosen
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
        for i, case in enumerate(cases)
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each worker has files of its own, and takes from the other when it has none left: what a file makes is made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="module")
def quickly_compiled():
    """XLA optimises little: for tests of numbers, whose programs run a few times each."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def oracle(name: str) -> list[dict]:
    """Cases of a file in tests/oracles, with `@a7` references filled in."""
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
def room():
    """Compiled programs are let go before XLA aborts: early, as a file of tests may compile many."""
    yield
    forget_programs(0.3)


@pytest.fixture(scope="session", autouse=True)
def draw():
    """Runs of this process draw no pictures, which would take most of the time of tiny ones -> what draws them."""
    from fedsim.runs import derive

    drawn, derive.derived_files = derive.derived_files, lambda *arguments: {}
    yield drawn
    derive.derived_files = drawn


@pytest.fixture
def pictures(draw, monkeypatch):
    """Runs of this test draw theirs."""
    from fedsim.runs import derive

    monkeypatch.setattr(derive, "derived_files", draw)
