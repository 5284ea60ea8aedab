"""Row 24: a sample of mutants against the tests that concern them, and the branches reached."""

import contextlib
import hashlib
import importlib
import json
import os
import random
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
EQUIVALENT = Path(__file__).with_name(
    "equivalent.json"
)  # mutants that change no result, each read by hand, with the reason
LOG = Path(__file__).with_name(
    "killed.json"
)  # what was killed once is not run again, while its module stays as it is
FILES = {
    "rules": ("test_rules_by_hand", "test_rules", "test_laws_of_rules", "test_robust_oracles"),
    "persistence": (
        "test_persistence_by_hand",
        "test_commits",
        "test_power",
        "test_resume",
        "test_persistence",
    ),
    "statistics": ("test_statistics_by_hand", "test_statistics", "test_verdict"),
    "plan": ("test_plan_by_hand", "test_lanes"),
}
WIDER = {  # what those that survive these meet as well
    "rules": (
        "test_oracles",
        "test_methods",
        "test_fixed_points",
        "test_definitions",
        "test_reference_rules",
        "test_reference_methods",
    ),
    "persistence": (
        "test_locks",
        "test_unfinished",
        "test_records",
        "test_again",
        "test_faults",
        "test_verify",
    ),
    "statistics": (
        "test_breakdown",
        "test_compare",
        "test_costs",
        "test_power",
        "test_derived",
        "test_paper_figures",
        "test_paper_table",
    ),
    "plan": (
        "test_loop",
        "test_bits",
        "test_partitions",
        "test_run_ends",
        "test_asynchronous",
        "test_flights",
        "test_fleet",
        "test_selection",
        "test_edges",
        "test_personal_methods",
        "test_traces",
        "test_listed_files",
        "test_submodels",
    ),
}
ONLY = {  # of the tests of rules, those that concern a module (-k)
    "rules/agnostic": "defaults_of or agnostic",
    "rules/centered_clipping": "defaults_of or clipping",
    "rules/dyn": "defaults_of or dyn",
    "rules/fedadam": "defaults_of or optimisers_of_the_server",
    "rules/fedavgm": "defaults_of or momentum_of_the_server",
    "rules/fedexp": "defaults_of or fedexp",
    "rules/geometric_median": "defaults_of or geometric or rfa or shares_of_rows",
    "rules/horvitz_thompson": "defaults_of or horvitz or means_over",
    "rules/krum": "defaults_of or krum or rules_say",
    "rules/mean": "defaults_of or test_mean or one_client or absent_rows",
    "rules/mean_over_all": "defaults_of or mean_over_all or means_over",
    "rules/median": "order_statistics or median or rules_say or defaults_of",
    "rules/nova": "defaults_of or nova",
    "rules/q_fair": "defaults_of or q_fair",
    "rules/sorting": "order_statistics or median or trimmed",
    "rules/trimmed_mean": "order_statistics or trimmed or rules_say or defaults_of",
}
PERSISTENCE = (
    "disk/checkpoint",
    "disk/rowfile",
    "engine/store",
    "runs/commits",
    "runs/journal",
    "disk/files",
    "runs/directory",
)
# Folders of tests whose fast part is to take the branches of rules, persistence and scenarios.
COVERING = ("cli", "clients", "engine", "models", "privacy", "rules", "runs", "scenario")
# Those whose long part counts as well.
COVERING_LONG = (
    "tests/rules",
    "tests/scenario",
    "tests/fields/adapters/test_lora.py",
    "tests/clients/test_ranks.py",
)
COVERING_RULES = ("rules", "laws_of_rules", "detectors", "own_samples", "subsets")
IMPORTED = (
    "beartype", "hypothesis", "jax", "jaxtyping", "jinja2", "matplotlib.figure", "optax", "pandas",
    "pydantic", "pytest", "rich", "safetensors.numpy", "scipy.optimize", "scipy.special",
    "scipy.stats", "sklearn.datasets", "yaml", "click",
)  # fmt: skip
COUNT = 200
# After so many seconds no more mutants are tried.
LIMIT = float(os.environ.get("FEDSIM_MUTANTS_SECONDS", "7200"))
SECONDS = 300  # CPU seconds that the tests of a mutant may take
# Wall seconds; the limit of CPU time ends endless mutants, even on a busy machine.
PATIENCE = 3600.0


def imported() -> None:
    """Import everything that tests import and no mutant changes, before processes are forked."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get(
        "JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "xla")
    )
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in IMPORTED:
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.partition(".")[0] == "fedsim"]


@contextlib.contextmanager
def planted(mutant: Mutant):
    """Let every import of the module load the mutant, even if there is bytecode."""
    target, stats, data = (
        str(path_of(mutant.module)),
        SourceFileLoader.path_stats,
        SourceFileLoader.get_data,
    )

    def path_stats(self, path):
        if str(path) == target:
            raise OSError
        return stats(self, path)

    def get_data(self, path):
        return mutant.source.encode() if str(path) == target else data(self, path)

    SourceFileLoader.path_stats, SourceFileLoader.get_data = path_stats, get_data
    yield
    SourceFileLoader.path_stats, SourceFileLoader.get_data = stats, data


def paths(names: Sequence[str]) -> list[str]:
    """The existing test files with these names."""
    return [
        str(path.relative_to(ROOT))
        for name in names
        for path in (ROOT / "tests").rglob(f"{name}.py")
    ]


def tests_of(module: str) -> list[str]:
    """Pytest arguments for the tests that concern a module."""
    group = group_of(module)
    files = paths(FILES[group])
    if group != "rules":
        return files
    return [
        *(files[:1] if module in ("rules/fedadam", "rules/fedavgm") else files),
        "-k",
        ONLY[module],
    ]


def tested(mutant: Mutant | None, files: Sequence[str]) -> str:
    """Test a mutant (None: the original source); return `killed`, `survived`, or `endless`."""
    pid = os.fork()
    if pid == 0:
        code = 70  # of a child that fails before it could test
        try:
            code = _child(mutant, files)
        finally:
            os._exit(code)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return (
                "survived"
                if code == 0
                else "endless"
                if code in (-signal.SIGXCPU, -signal.SIGKILL)
                else "killed"
            )
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
    words = [
        "-x",
        "-q",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "-m",
        "not long or quick",  # and the cases that the fast part leaves out of its tests
        *files,
    ]
    os.chdir(ROOT)
    with planted(mutant) if mutant is not None else contextlib.nullcontext():
        return int(pytest.main(words))


def group_of(module: str) -> str:
    return next(group for group, modules in MODULES.items() if module in modules)


def score(quick: bool) -> Figure:
    """Measure the sample and the branches; store the mutants that survived."""
    imported()
    outcomes, survivors, chosen = Counter(), [], mutants.sample(6 if quick else COUNT)
    killed = set(json.loads(LOG.read_text())) if LOG.exists() else set()
    equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    for words in {
        *(tuple(tests_of(mutant.module)) for mutant in chosen),
        *map(tuple, map(paths, WIDER.values())),
    }:
        assert tested(None, words) == "survived", f"{words}: the tests fail on the sound source"
    random.Random(0).shuffle(chosen)  # so that any first part of it is a random sample too
    end = time.monotonic() + LIMIT
    for n, mutant in enumerate(chosen, 1):
        if time.monotonic() > end:
            break
        source_hash = hashlib.sha256(mutant.source.encode()).hexdigest()[:16]
        key = f"{mutant.module}:{mutant.change}:{source_hash}"
        name = f"{mutant.module}.py: {mutant.change}"
        outcome = "killed" if key in killed else tested(mutant, tests_of(mutant.module))
        if outcome == "survived":
            known = name in equivalent
            outcome = (
                "equivalent" if known else tested(mutant, paths(WIDER[group_of(mutant.module)]))
            )
        outcomes[outcome] += 1
        if outcome == "survived":
            survivors.append(name)
            print(f"  {n}: survived {name} (line {mutant.line})", flush=True)
        elif outcome != "equivalent":
            killed.add(key)
            LOG.write_text(json.dumps(sorted(killed), indent=1) + "\n")
        if n % 10 == 0:
            print(f"  {n}: {dict(outcomes)}", flush=True)
    if not quick:
        SURVIVED.write_text(json.dumps(survivors, indent=1) + "\n")
    tried = outcomes.total() - outcomes["equivalent"]
    share, branches = 1 - outcomes["survived"] / tried, None if quick else covered()
    text = (
        f"{tried - outcomes['survived']} of {tried} mutants killed ({share:.1%}; "
        f"{outcomes['endless']} of them by the time limit), a fixed random sample of "
        f"{len(mutants.everything()):,} over rules, persistence, statistics and plan, by fast "
        "tests with all their cases; those that survived are in tests/trust/survivors.json; "
        f"{outcomes['equivalent']} more change no result, "
        "with the reason of each in tests/trust/equivalent.json"
    )
    if branches:
        text += "; branches: " + ", ".join(
            f"{name} {value:.1%}" for name, value in branches.items()
        )
    return Figure(
        text, share >= 0.85 and (quick or (tried >= 100 and min(branches.values()) >= 0.95))
    )


def covered() -> dict[str, float]:
    """Return the share of branches that tests and doctests take, in each group of modules."""
    packages = ("rules", "disk", "runs", "engine", "scenario")
    examples = [f"fedsim/{package}" for package in packages]
    names = [*examples, *[f"tests/{folder}" for folder in COVERING]]
    data = str(ROOT / ".pytest_cache" / "trust.coverage")
    environment = {**os.environ, "COVERAGE_FILE": data, "PYTHONPATH": str(ROOT)}
    (ROOT / ".pytest_cache").mkdir(exist_ok=True)
    measure = [sys.executable, "-m", "coverage", "run", "--branch", "--source=fedsim"]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run([*measure, *tests, *names], cwd=ROOT, env=environment, check=False)
    whole = {**environment, "FEDSIM_WHOLE": "1"}  # some rules are only in further cases
    laws = paths([f"test_{name}" for name in COVERING_RULES])
    subprocess.run([*measure, "--append", *tests, *laws], cwd=ROOT, env=whole, check=False)
    long = ["-m", "long", *COVERING_LONG]
    subprocess.run([*measure, "--append", *tests, *long], cwd=ROOT, env=environment, check=False)
    report = str(ROOT / ".pytest_cache" / "trust-branches.json")
    subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", report],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    files = json.loads(Path(report).read_text())["files"]
    shares = {}
    for group, prefixes in {
        "rules": ("rules/",),
        "persistence": PERSISTENCE,
        "scenario": ("scenario/",),
    }.items():
        summaries = [
            f["summary"]
            for name, f in files.items()
            if name.removeprefix("fedsim/").startswith(tuple(prefixes))
        ]
        shares[group] = sum(s["covered_branches"] for s in summaries) / sum(
            s["num_branches"] for s in summaries
        )
    return shares
