"""Rows 4, 5, 7, 8, 9: runs are killed, cut off, interrupted, raced for, or damaged."""

import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import kill_loop
import powercut
import races
import signals
from damage import killed_run, trials
from directories import bits, finished, tiny, whole, written

import fedsim
from fedsim.engine import store
from fedsim.errors import CheckpointError, DirectoryError
from trust.table import Figure

MEMORY = {"client memory in the commit": 256.0, "client memory in a file": 0.0}


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


def cut(quick: bool) -> Figure:
    """Examine every state that a power cut may leave of a run directory, and resume many."""
    store.SPARE, lines, bad = 0, [], 0
    for kind, resident in MEMORY.items():
        for ordered in (True, False):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                scenario = tiny(resident, seeds=[0])
                (folder / "run").mkdir()
                with powercut.Tape(folder / "run") as tape:
                    fedsim.run(scenario, out=folder / "run", pictures=False)
                every = list(powercut.cuts(tape.steps, ordered))
                states = powercut.thinned(every, 60) if quick else every
                seen = Counter(
                    commit_after(each, tape, folder / "cut", scenario["rounds"]) for each in states
                )
                tried = powercut.thinned(every, 6 if quick else 300 if ordered else 100)
                expected = bits(folder / "run")
                outcomes = Counter(
                    end_after(each, scenario, expected, folder / "cut") for each in tried
                )
            wrong = len(states) - seen["last"] - seen["newer"] + len(tried) - outcomes["equal"]
            bad += wrong if ordered else 0
            order = "in order" if ordered else "in any order"
            lines.append(
                f"{kind}, names {order}: {len(states)} states of {len(tape.steps)} operations, "
                f"{seen['last']} resume from the last commit or start where there is none, "
                f"{seen['newer']} from the one just being made, {seen['refused']} refused, "
                f"{seen['outside']} from another; {len(tried)} resumed, "
                f"{outcomes['equal']} equal bytes"
            )
            print(f"  {lines[-1]}", flush=True)
    return Figure("; ".join(lines), bad == 0)


def commit_after(state: powercut.Cut, tape: powercut.Tape, scratch: Path, rounds: int) -> str:
    """From which commit a state resumes: the `last`, one that is `newer` and not flushed, ..."""
    made = (step for step in tape.steps if step.name == "mkdir" and step.entry.endswith(".0"))
    seed = next((step.other for step in made), -1)
    lasting, newest = powercut.allowed(tape.steps, state.moment).get(int(seed), (0, 0))
    state.make(scratch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = powercut.resumed_commit(scratch / "checkpoints" / "scaffold.0", rounds)
    except CheckpointError:
        return "refused"
    finally:
        shutil.rmtree(scratch)
    if not lasting <= got <= newest:
        return "outside"
    return "last" if got == lasting else "newer"


def end_after(state: powercut.Cut, scenario: dict, expected: dict[str, str], scratch: Path) -> str:
    """How a run ends that is resumed from a state."""
    state.make(scratch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fedsim.run(scenario, out=scratch, resume=True, pictures=False)
        whole(scratch, expected)
    except (CheckpointError, DirectoryError):
        return "refused"
    finally:
        shutil.rmtree(scratch)
    return "equal"


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
