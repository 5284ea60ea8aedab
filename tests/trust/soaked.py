"""Row 23: the evaluation of a soak's samples."""

import json
import tempfile
from pathlib import Path

import numpy as np

from trust import soak
from trust.table import Figure

STEADY = ("descriptors", "threads")


def read(quick: bool) -> Figure:
    """Evaluate the samples of `python -m tests.trust.soak`, or of a small soak if `quick`."""
    if quick:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "soak.jsonl"
            soak.soak(40, log, every=1.0)
            return judged(log, warm_jobs=0)
    return judged(soak.SAMPLES)


def judged(log: Path, warm_jobs: int = soak.WARM_JOBS) -> Figure:
    """Return least-squares slopes over the samples after the warm-up, in share of time and jobs."""
    samples = [json.loads(line) for line in log.read_text().splitlines()]
    last = samples[-1]["seconds"]
    is_warm = lambda sample: sample["seconds"] >= soak.WARM * last and sample["jobs"] >= warm_jobs
    warm = [sample for sample in samples if is_warm(sample)]
    hours = np.array([s["seconds"] / 3600 for s in warm])
    slopes = {
        name: soak.slope(hours, np.array([float(s[name]) for s in warm])) for name in soak.COLUMNS
    }
    compiled = warm[-1]["compiled"] - warm[0]["compiled"]
    spread = {name: (min(s[name] for s in warm), max(s[name] for s in warm)) for name in STEADY}
    least = min(s["trimmed"] for s in warm)
    steps = [s["trimmed"] for s in warm]
    rises = np.diff(steps)
    memory, trimmed, objects, maps = (
        _per_hour(slopes[name]) for name in ("rss", "trimmed", "objects", "maps")
    )
    warmed = f"{warm[0]['seconds'] / 60:.0f} min and {warm[0]['jobs']:,} jobs"
    (least_open, most_open), (least_threads, most_threads) = (
        spread["descriptors"],
        spread["threads"],
    )
    other_rises = steps[-1] - steps[0] - max(rises)
    text = (
        f"{last / 3600:.2f} h, {samples[-1]['jobs']:,} runs, resumes and comparisons in one process"
        f", {len(warm)} samples after a warm-up of {warmed}: memory {memory} MiB/h "
        f"({trimmed} MiB/h after malloc_trim, from {least:.0f} MiB), "
        f"descriptors {least_open} to {most_open}, threads {least_threads} to {most_threads}, "
        f"Python objects {objects}/h, maps {maps}/h, {compiled} compilations after warm-up "
        f"({warm[0]['compiled']} before); the most between two samples is {max(rises):+.1f} MiB, "
        f"all other rises and falls together {other_rises:+.1f} MiB"
        f" (soaked at {samples[0].get('commit', 'no commit')})"
    )
    level = all(
        abs(slopes[name][0]) <= 2 * slopes[name][1] + 1e-9 or low == high
        for name, (low, high) in spread.items()
    )
    return Figure(
        text,
        last >= 7000
        and slopes["rss"][0] < 1
        and slopes["trimmed"][0] < 1
        and level
        and compiled == 0,
    )


def _per_hour(slope: tuple[float, float]) -> str:
    return f"{slope[0]:+.3g} ± {slope[1]:.2g}"
