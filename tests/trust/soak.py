"""Row 23: hours of runs, comparisons and resumes in one process, whose memory is sampled.

python -m tests.trust.soak --seconds 7200 --log samples.jsonl

It writes a sample per line; `python -m tests.trust 23` evaluates them.
"""

import argparse
import ctypes
import gc
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trust import commit
from trust.table import Figure

SAMPLES = Path(__file__).with_name("soak.jsonl")
EVERY = 30.0  # seconds between samples
WARM = 1 / 4  # share of the time that counts as warm-up
# The jobs that count as warm-up: JAX caches the last 2,048 jitted functions, of which a run makes
# four or more, so a process grows for about 500 runs before the caches are full.
WARM_JOBS = 1_200
PAIRS = 32  # pairs of seeds
COLUMNS = ("rss", "trimmed", "descriptors", "threads", "objects", "maps")
DIGITS = {"kind": "digits", "clients": 20}
BASE = {
    "name": "soak",
    "rounds": 5,
    "data": DIGITS,
    "model": "logistic",
    "cohort": {"kind": "uniform", "size": 5},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
    "checkpoint": {"rounds": 1},
}
SKEWED = {**BASE, "data": {**DIGITS, "partition": {"kind": "dirichlet", "alpha": 0.3}}}
MEMORY = {**BASE, "method": "scaffold", "checkpoint": {"rounds": 1, "resident_mb": 0.0}}


def jobs(folder: Path) -> Iterator[str]:
    """Do endless work in fresh folders; yield each job's name when it is done.

    Every fifth turn draws pictures. New seeds may mean new shapes of the packed cohort, so a fixed
    set of seeds is repeated.
    """
    import fedsim
    from fedsim.errors import Interrupted

    for n in itertools.count():
        seeds, drawn = [2 * (n % PAIRS), 2 * (n % PAIRS) + 1], n % 5 == 0
        fedsim.run(BASE, seeds=seeds, out=folder / f"{n}.run", pictures=drawn)
        yield "run"
        fedsim.run(SKEWED, seeds=2, out=folder / f"{n}.skewed", pictures=False)
        yield "skewed"
        asked = iter([False, False])
        kept = {"seeds": seeds, "out": folder / f"{n}.memory"}
        try:
            fedsim.run(MEMORY, ask=lambda: next(asked, True), **kept)
        except Interrupted:
            yield "interrupted"
        fedsim.run(MEMORY, resume=True, pictures=False, **kept)
        yield "resumed"
        fedsim.run(MEMORY, edits="rounds=8", resume=True, pictures=False, **kept)
        yield "lengthened"
        out = folder / f"{n}.compare"
        fedsim.compare(BASE, "fedavg,scaffold,median", seeds=seeds, out=out, pictures=drawn)
        yield "compared"
        vary = {"client.lr": [0.05, 0.2]}
        fedsim.compare(BASE, "fedavg,median", vary=vary, seeds=seeds, pictures=False)
        yield "varied"


def sample() -> dict[str, float]:
    """Sample this process after garbage collection: MiB, counts; `trimmed`: after malloc_trim."""
    gc.collect()
    held = {"rss": resident(), "objects": len(gc.get_objects())}
    ctypes.CDLL(None).malloc_trim(0)
    return {
        **held,
        "trimmed": resident(),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "threads": len(os.listdir("/proc/self/task")),
        "maps": Path("/proc/self/maps").read_bytes().count(b"\n"),
    }


def resident() -> float:
    """MiB of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def soak(seconds: float, log: Path, every: float = EVERY) -> None:
    """Work for some seconds, and write a sample to the log every `every` seconds."""
    os.environ.setdefault("NPROC", "1")
    import jax

    compiled = [0]

    def heard(event: str, duration: float, **_) -> None:
        compiled[0] += event.endswith("backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(heard)
    began, due, done = time.monotonic(), 0.0, 0
    with tempfile.TemporaryDirectory() as place, log.open("w") as file:
        work = jobs(Path(place))
        while (now := time.monotonic() - began) < seconds:
            next(work)
            done += 1
            if now >= due:
                due = now + every
                where = {} if file.tell() else {"commit": commit()}
                counts = {"jobs": done, "compiled": compiled[0]}
                seen = {**where, "seconds": time.monotonic() - began, **counts, **sample()}
                file.write(json.dumps(seen) + "\n")
                file.flush()
            if done % 7 == 0:
                for path in Path(place).iterdir():
                    shutil.rmtree(path)


def slope(hours: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Least squares -> units per hour, and the standard error of that."""
    design = np.stack([hours, np.ones_like(hours)], 1)
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    rest = values - design @ solution
    spread = np.sqrt(rest @ rest / max(len(hours) - 2, 1))
    return float(solution[0]), float(spread / (np.std(hours) * np.sqrt(len(hours))))


def read(quick: bool) -> Figure:
    """Evaluate the samples of `python -m tests.trust.soak`, or of a small soak if `quick`."""
    if not quick:
        return judged(SAMPLES, WARM_JOBS)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "soak.jsonl"
        soak(40, log, every=1.0)
        return judged(log, 0)


def judged(log: Path, warm_jobs: int) -> Figure:
    """Return least-squares slopes over the samples after the warm-up, in share of time and jobs."""
    samples = [json.loads(line) for line in log.read_text().splitlines()]
    seconds = samples[-1]["seconds"]
    warm = [s for s in samples if s["seconds"] >= WARM * seconds and s["jobs"] >= warm_jobs]
    hours = np.array([s["seconds"] / 3600 for s in warm])
    slopes = {name: slope(hours, np.array([float(s[name]) for s in warm])) for name in COLUMNS}
    compiled = warm[-1]["compiled"] - warm[0]["compiled"]
    words = [f"{name} {rise:+.3g} ± {error:.2g}" for name, (rise, error) in slopes.items()]
    text = (
        f"{seconds / 3600:.2f} h, {samples[-1]['jobs']:,} runs, resumes and comparisons in one "
        f"process, {len(warm)} samples after a warm-up of {warm[0]['jobs']:,} jobs; per hour (MiB "
        f"of memory, before and after malloc_trim): {', '.join(words)}; {compiled} compilations "
        f"after warm-up ({warm[0]['compiled']} before) "
        f"(soaked at {samples[0].get('commit', 'no commit')})"
    )
    levels = [slopes[name] for name in ("descriptors", "threads")]
    is_level = all(abs(rise) <= 2 * error + 1e-9 for rise, error in levels)
    leaks = slopes["rss"][0] >= 1 or slopes["trimmed"][0] >= 1
    return Figure(text, seconds >= 7000 and not leaks and is_level and compiled == 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--log", type=Path, default=SAMPLES)
    asked = parser.parse_args()
    soak(asked.seconds, asked.log)


if __name__ == "__main__":
    main()
