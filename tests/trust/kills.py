"""Rows 4, 7, 8, 9: runs are killed, interrupted, raced for, or damaged."""

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import kill_loop
import races
import signals
from damage import killed_run, trials
from directories import bits, finished, written

from trust.table import Figure


def undisturbed(scenario: dict, folder: Path) -> tuple[Path, dict[str, str]]:
    """The file of a scenario, and the bits of its run."""
    file = written(scenario, folder / "scenario.yaml")
    assert finished(file, folder / "whole").returncode == 0
    return file, bits(folder / "whole")


def killed(quick: bool) -> Figure:
    """Kill runs at random times."""
    names = ["full_batch"] if quick else list(kill_loop.SCENARIOS)
    tallies = []
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            scenario = kill_loop.scenario(name, 60 if quick else None)
            file, expected = undisturbed(scenario, Path(place))
            many = 3 if quick else 25
            tally = kill_loop.kill_loop(file, Path(place), expected, many, random.Random(4))
        tallies.append(tally)
        print(f"  {name}: {tally}", flush=True)
    kills, runs, starting = (
        sum(getattr(tally, of) for tally in tallies) for of in ("kills", "runs", "starting")
    )
    text = (
        f"{kills} SIGKILLs at random times over {runs} runs of {', '.join(names)} "
        f"({starting} before the first commit of that process): "
        "all ended with equal bytes, no row lost or doubled"
    )
    return Figure(text, quick or kills >= 300)


def signalled(quick: bool) -> Figure:
    """Send SIGINT and SIGTERM at random times after a commit; resume as the message says."""
    rng, numbers, count = random.Random(7), list(signals.CODES), 4 if quick else 100
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, expected = undisturbed(signals.SCENARIO, folder)
        took = [
            signals.trial(file, folder / str(n), numbers[n % 2], rng.uniform(0, 0.6), expected)
            for n in range(count)
        ]
    text = (
        f"{count} of {count} at random times: exit 130 or 143, longest {max(took):.2f} s, "
        f"mean {sum(took) / count:.2f} s, 0 leftovers, resumed to equal bytes"
    )
    return Figure(text, max(took) <= 5)


def raced(quick: bool) -> Figure:
    """Start two runs at once on one directory, and race for the claim alone."""
    count, many = (4, 40) if quick else (50, 2000)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, expected = undisturbed(races.SCENARIO, folder)
        ways = [
            races.race(file, folder / f"r{n}", expected, ("--resume",) if n % 2 else ())
            for n in range(count)
        ]
        for writers in (2, 4):
            (folder / str(writers)).mkdir()
            races.quick_races(folder / str(writers), many // 2, writers)
    text = (
        f"{count} of {count} races of two runs with one winner ({ways.count('locked')} losers "
        f"ended with exit 6, {ways.count('late')} came when it was done), equal bytes; "
        f"{many} of {many} races of 2 and 4 processes for the claim alone"
    )
    return Figure(text, True)


def damaged(quick: bool) -> Figure:
    """Flip, cut, splice and exchange the files of a killed run, and resume it."""
    count, began = 30 if quick else 10_000, time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        template, scratch = Path(place) / "template", Path(place) / "copy"
        expected = killed_run(template)
        seen = Counter(came for _, came in trials(template, expected, scratch, 9, count))
    print(f"  {time.monotonic() - began:.0f} s", flush=True)
    text = (
        f"{count:,} damaged: {seen['refused']:,} refused, {seen['equal, warned']:,} resumed from "
        f"the commit before to equal bytes, {seen['equal']:,} harmless (equal bytes), "
        "0 silently different"
    )
    return Figure(text, seen.total() == count)
