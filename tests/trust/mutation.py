"""Row 24: a sample of mutants, each in a forked child before the tests that concern it; and branches that tests reach."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

from trust import ROOT, mutants
from trust.mutants import MODULES, Mutant, path_of
from trust.table import Figure

SURVIVED = Path(__file__).with_name("survivors.json")
TESTS = {
    "rules": ("test_rules", "test_robust_oracles", "test_survivors"),
    "persistence": ("test_survivors", "test_resume", "test_power", "test_persistence"),
    "statistics": ("test_statistics", "test_survivors", "test_compare"),
    "plan": ("test_survivors", "test_partitions", "test_lanes", "test_bits"),
}
BRANCHES = (
    "rules",
    "engine/checkpoint",
    "engine/rowfile",
    "engine/store",
    "report/journal",
    "report/files",
    "report/directory",
    "scenario",
)
COVERING = (
    "rules", "robust_oracles", "faults", "oracles", "resume", "persistence", "power", "survivors", "scenario", "scenarios", "schema", "hostile",
    "mutations", "check", "commands", "confined", "plugins", "public", "stages", "methods", "editor", "sources", "partitions",
)  # fmt: skip
SECONDS = 90  # of CPU that the tests of a mutant may take
PATIENCE = 600.0  # seconds of wall time


def imported() -> None:
    """Everything that tests import and no mutant changes: what is forked has it already."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get(
        "JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "xla")
    )
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import beartype, hypothesis, jax, jaxtyping, jinja2, matplotlib.figure, optax, pandas, pydantic, pytest, rich, scipy.stats, sklearn.datasets, yaml  # noqa: E401, F401, I001
    import safetensors.numpy, scipy.optimize, scipy.special  # noqa: E401, F401

    assert not [name for name in sys.modules if name.partition(".")[0] == "fedsim"]


@contextlib.contextmanager
def planted(mutant: Mutant):
    """Importing the module gives the mutant, whatever loads it and whatever bytecode there is."""
    target, stats, data = str(path_of(mutant.module)), SourceFileLoader.path_stats, SourceFileLoader.get_data

    def path_stats(self, path):
        if str(path) == target:
            raise OSError
        return stats(self, path)

    def get_data(self, path):
        return mutant.source.encode() if str(path) == target else data(self, path)

    SourceFileLoader.path_stats, SourceFileLoader.get_data = path_stats, get_data
    yield
    SourceFileLoader.path_stats, SourceFileLoader.get_data = stats, data


def tested(mutant: Mutant | None, files: Sequence[str]) -> str:
    """What becomes of a mutant (None: of the sound source): `killed`, `survived`, or `endless`."""
    pid = os.fork()
    if pid == 0:
        os._exit(_child(mutant, files))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "survived" if code == 0 else "endless" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "killed"
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "endless"


def _child(mutant: Mutant | None, files: Sequence[str]) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    nothing = os.open(os.devnull, os.O_RDWR)
    if mutant is not None:
        for number in (1, 2):
            os.dup2(nothing, number)
    sys.dont_write_bytecode = True
    words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", *[f"tests/{name}.py" for name in files]]
    os.chdir(ROOT)
    with planted(mutant) if mutant is not None else contextlib.nullcontext():
        return int(pytest.main(words))


def group_of(module: str) -> str:
    return next(group for group, modules in MODULES.items() if module in modules)


def score(quick: bool) -> Figure:
    """The sample, those that survived written down, and the branches."""
    imported()
    count, came, survivors = 6 if quick else 200, Counter(), []
    chosen = mutants.sample(count)
    groups = {group_of(mutant.module) for mutant in chosen}
    there = {group: [name for name in TESTS[group] if (ROOT / "tests" / f"{name}.py").exists()] for group in groups}
    for group in groups:
        assert tested(None, there[group]) == "survived", f"{group}: the tests fail on the sound source"
    for n, mutant in enumerate(chosen, 1):
        what = tested(mutant, there[group_of(mutant.module)])
        came[what] += 1
        if what == "survived":
            survivors.append(f"{mutant.module}.py:{mutant.line}: {mutant.what}")
            print(f"  {n}: survived {survivors[-1]}", flush=True)
        elif n % 10 == 0:
            print(f"  {n}: {dict(came)}", flush=True)
    if not quick:
        SURVIVED.write_text(json.dumps(survivors, indent=1) + "\n")
    share, branches = 1 - came["survived"] / len(chosen), None if quick else covered()
    text = (
        f"{len(chosen) - came['survived']} of {len(chosen)} mutants killed ({share:.1%}; {came['endless']} of them by the time "
        f"limit), a fixed random sample of {len(mutants.everything()):,} over rules, persistence, statistics and plan, by the "
        "fast tests; those that survived are in tests/trust/survivors.json"
    )
    if branches:
        text += "; branches: " + ", ".join(f"{name} {value:.1%}" for name, value in branches.items())
    return Figure(text, share >= 0.85 and (quick or min(branches.values()) >= 0.95))


def covered() -> dict[str, float]:
    """Branches that the tests of these modules take, in the whole of each group."""
    names = [f"tests/test_{name}.py" for name in COVERING if (ROOT / "tests" / f"test_{name}.py").exists()]
    data = str(ROOT / ".pytest_cache" / "trust.coverage")
    environment = {**os.environ, "COVERAGE_FILE": data, "PYTHONPATH": str(ROOT)}
    (ROOT / ".pytest_cache").mkdir(exist_ok=True)
    run = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        "--branch",
        "--source=fedsim",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    subprocess.run([*run, *names], cwd=ROOT, env=environment, check=False)
    report = f"{data}.json"
    subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", report], cwd=ROOT, env=environment, check=True
    )
    files = json.loads(Path(report).read_text())["files"]
    found = {}
    for group, parts in {"rules": ("rules/",), "persistence": BRANCHES[1:-1], "scenario": ("scenario/",)}.items():
        ours = [f["summary"] for name, f in files.items() if name.removeprefix("fedsim/").startswith(tuple(parts))]
        found[group] = sum(s["covered_branches"] for s in ours) / sum(s["num_branches"] for s in ours)
    return found
