"""Rows 4, 6, 7, 8, 9: runs are killed, interrupted, raced for, damaged, or their disk fails."""

import functools
import importlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import faulty
from directories import bits, played, tiny, written

from trust import forks
from trust.table import Figure


def killed(quick: bool) -> Figure:
    """Kill runs at random times, and at every operation on the disk."""
    loop, kills, runs, starting = forks.deep("kill_loop"), 0, 0, 0
    names = ["full_batch"] if quick else list(loop.SCENARIOS)
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            file = written(loop.scenario(name, 60 if quick else None), folder / "scenario.yaml")
            assert loop.finished(file, folder / "quiet").returncode == 0
            many, rng = 3 if quick else 25, random.Random(4)
            tally = loop.kill_loop(file, folder, bits(folder / "quiet"), many, rng, soon=2.0)
        kills, runs, starting = kills + tally.kills, runs + tally.runs, starting + tally.starting
        print(f"  {name}: {tally}", flush=True)
    struck = Counter()
    if not quick:
        struck += at_every_operation(
            "test_a_run_killed_at_any_operation_resumes_to_equal_bytes", "disk"
        )
        struck += at_every_operation(
            "test_a_run_killed_at_any_operation_resumes_to_equal_bytes", "resident", every=3
        )
    every = (
        "none in the small version"
        if quick
        else "every one where client memory is a file, every third where it is not"
    )
    scenarios = ", ".join(names)
    text = (
        f"{kills} SIGKILLs at random times over {runs} runs of {scenarios} "
        f"({starting} before the first commit of that process), "
        f"and {struck['struck']} kills at an operation on the disk ({every}): "
        "all ended with equal bytes, no row lost or doubled"
    )
    return Figure(text, quick or kills + struck["struck"] >= 300)


class Counted(faulty.Disk):
    """Counts the disks that struck."""

    seen: ClassVar[Counter] = Counter()

    def __exit__(self, *about) -> None:
        super().__exit__(*about)
        Counted.seen["struck"] += self.struck


def undrawn() -> None:
    """Let runs of this process draw no pictures, as in the tests."""
    from fedsim.runs import derive

    derive.derived_files = lambda *arguments: {}


def persistence():
    """Return `tests/runs/test_persistence.py` with counted disks and full sweeps."""
    os.environ["FEDSIM_WHOLE"] = "1"
    undrawn()
    module = importlib.import_module("test_persistence")
    module.Disk = Counted
    module.store.SPARE = 0  # as in its fixture
    return module


def at_every_operation(name: str, *kinds: str, every: int = 1, **more) -> Counter:
    """Run a test of that module for these kinds of client memory; return the counts.

    Args:
      name: the test's name.
      kinds: kinds of client memory.
      every: n, to strike at every n-th operation.
      more: further arguments of the test.
    """
    module, Counted.seen = persistence(), Counter()
    module.EVERY = every
    test: Callable = getattr(module, name)
    with tempfile.TemporaryDirectory() as place:
        folders = (Path(place) / str(n) for n in range(1000))

        @functools.cache
        def undisturbed(kind, seeds):
            return played(
                tiny(module.KINDS[kind], seeds=list(seeds)), next(folders) / "out", pictures=False
            )

        for kind in kinds:
            parts = range(module.PARTS) if "part" in test.__code__.co_varnames else [None]
            for part in parts:
                folder = next(folders)
                folder.mkdir()
                given = {"part": part} if part is not None else {}
                test(kind=kind, undisturbed=undisturbed, tmp_path=folder, **given, **more)
                print(f"  {name} {kind} {part}: {dict(Counted.seen)}", flush=True)
    return Counted.seen


def failing(quick: bool) -> Figure:
    """Let every operation fail, once or for good, and let no descriptor be free."""
    if quick:
        seen = at_every_operation(
            "test_a_run_without_free_descriptors_resumes_to_equal_bytes", "resident"
        )
        return Figure(
            f"{seen['struck']} times no descriptor was free: a line, resumed to equal bytes", True
        )
    once = at_every_operation(
        "test_a_failed_operation_is_one_line_and_resumes_to_equal_bytes", "disk", lasting=False
    )
    lasting = at_every_operation(
        "test_a_failed_operation_is_one_line_and_resumes_to_equal_bytes",
        "resident",
        every=3,
        lasting=True,
    )
    none = at_every_operation(
        "test_a_run_without_free_descriptors_resumes_to_equal_bytes", "resident", "disk"
    )
    text = (
        f"{once['struck']} operations that fail once (every one) and {lasting['struck']} from "
        "which on all fail (disk full, I/O error, read-only, in turn), "
        f"{none['struck']} times no free descriptor: each a line with the path (exit 4), "
        "nothing torn, resumed to equal bytes"
    )
    return Figure(text, once["struck"] > 100 and lasting["struck"] > 30)


def signalled(quick: bool) -> Figure:
    """Send SIGINT and SIGTERM at random times after a commit; resume as the message says."""
    script, rng = forks.deep("signals"), random.Random(7)
    script.subprocess = SimpleNamespace(run=forks.run, Popen=forks.Forked)
    took, count = [], 4 if quick else 100
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = written(script.SCENARIO, folder / "scenario.yaml")
        assert script.finished(file, folder / "whole").returncode == 0
        expected, numbers = bits(folder / "whole"), list(script.CODES)
        for n in range(count):
            took.append(
                script.trial(file, folder / str(n), numbers[n % 2], rng.uniform(0, 0.6), expected)
            )
    text = (
        f"{count} of {count} at random times: exit 130 or 143, longest {max(took):.2f} s, "
        f"mean {sum(took) / count:.2f} s, 0 leftovers, resumed to equal bytes"
    )
    return Figure(text, max(took) <= 5 and (quick or count >= 100))


def raced(quick: bool) -> Figure:
    """Start two runs at once on one directory, and race for the claim alone."""
    script, began = forks.deep("races"), time.monotonic()
    count, many = (4, 40) if quick else (50, 2000)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = written(script.SCENARIO, folder / "scenario.yaml")
        assert script.finished(file, folder / "whole").returncode == 0
        expected = bits(folder / "whole")
        ways = [
            script.race(file, folder / f"r{n}", expected, ("--resume",) if n % 2 else ())
            for n in range(count)
        ]
        locked, late = ways.count("locked"), ways.count("late")
        print(f"  {locked} locked, {late} late, {time.monotonic() - began:.0f} s", flush=True)
        for writers in (2, 4):
            (folder / str(writers)).mkdir()
            script.quick_races(folder / str(writers), many // 2, writers)
    text = (
        f"{count} of {count} races of two runs with one winner ({locked} losers ended with exit 6, "
        f"{late} came when it was done), equal bytes; "
        f"{many} of {many} races of 2 and 4 processes for the claim alone"
    )
    return Figure(text, quick or count >= 50)


def damaged(quick: bool) -> Figure:
    """Flip, cut, splice and exchange the files of a killed run, and resume it."""
    from damage import killed_run, trials

    undrawn()
    count, seen, began = 30 if quick else 10_000, Counter(), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        template, scratch = Path(place) / "template", Path(place) / "copy"
        expected = killed_run(template)
        for n, (_, outcome) in enumerate(trials(template, expected, scratch, 9, count), 1):
            seen[outcome] += 1
            if n % 500 == 0:
                print(
                    f"  {n}: {dict(seen)}, {time.monotonic() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    text = (
        f"{count:,} damaged: {seen['refused']:,} refused, {seen['equal, warned']:,} resumed from "
        f"the commit before to equal bytes, {seen['equal']:,} harmless (equal bytes), "
        "0 silently different"
    )
    return Figure(text, sum(seen.values()) == count and (quick or count >= 10_000))
