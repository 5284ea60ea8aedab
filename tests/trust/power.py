"""Row 5: every state that a power cut may leave of a run directory is examined, many resumed."""

import shutil
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import powercut
from directories import bits, tiny, whole

import fedsim
from fedsim.engine import store
from fedsim.errors import CheckpointError, DirectoryError
from trust.table import Figure

KINDS = {"client memory in the commit": 256.0, "client memory in a file": 0.0}


def recorded(scenario: dict, folder: Path) -> tuple[powercut.Tape, dict[str, str]]:
    """Return the tape of a run, and its bits."""
    out = folder / "run"
    out.mkdir()
    with powercut.Tape(out) as tape:
        fedsim.run(scenario, out=out, pictures=False)
    there = {
        str(path.relative_to(out)): None if path.is_dir() else path.read_bytes()
        for path in out.rglob("*")
    }
    assert powercut.state(tape.steps) == there  # the tape holds everything that happened
    return tape, bits(out)


def examined(cuts: list[powercut.Cut], tape: powercut.Tape, scratch: Path, rounds: int) -> Counter:
    """Count states by the commit to resume from: `last`, `newer` (not flushed yet), or an error."""
    outcomes: Counter = Counter()
    seed = next(
        (step.other for step in tape.steps if step.name == "mkdir" and step.entry.endswith(".0")),
        -1,
    )
    for cut in cuts:
        lasting, newest = powercut.allowed(tape.steps, cut.moment).get(int(seed), (0, 0))
        cut.make(scratch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                got = powercut.resumed_commit(scratch / "checkpoints" / "scaffold.0", rounds)
                if not lasting <= got <= newest:
                    outcomes["outside"] += 1
                else:
                    outcomes["last" if got == lasting else "newer"] += 1
            except CheckpointError:
                outcomes["refused"] += 1
        shutil.rmtree(scratch)
    return outcomes


def resumed(
    cuts: list[powercut.Cut], scenario: dict, expected: dict[str, str], scratch: Path
) -> Counter:
    """Resume each state to the end; count the outcomes."""
    outcomes: Counter = Counter()
    for cut in cuts:
        cut.make(scratch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fedsim.run(scenario, out=scratch, resume=True, pictures=False)
                whole(scratch, expected)
                outcomes["equal"] += 1
            except (CheckpointError, DirectoryError) as error:
                outcomes[f"refused: {str(error).splitlines()[0].replace(str(scratch), 'RUN')}"] += 1
        shutil.rmtree(scratch)
    return outcomes


def cuts(quick: bool) -> Figure:
    """Measure both kinds of client memory, with names in order and in any order."""
    store.SPARE, lines, bad, start = 0, [], 0, time.monotonic()
    for kind, resident in KINDS.items():
        scenario = tiny(resident, seeds=[0])
        for ordered in (True, False):
            with tempfile.TemporaryDirectory() as path:
                folder = Path(path)
                tape, expected = recorded(scenario, folder)
                every = list(powercut.cuts(tape.steps, ordered))
                states = powercut.thinned(every, 60) if quick else every
                seen = examined(states, tape, folder / "cut", scenario["rounds"])
                tried = powercut.thinned(every, 6 if quick else 300 if ordered else 100)
                outcomes = resumed(tried, scenario, expected, folder / "cut")
            wrong = seen["outside"] + seen["refused"] + len(tried) - outcomes["equal"]
            bad += wrong if ordered else 0
            order = "in order" if ordered else "in any order"
            lines.append(
                f"{kind}, names {order}: {len(states)} states of {len(tape.steps)} operations, "
                f"{seen['last']} resume from the last commit or start where there is none, "
                f"{seen['newer']} from the one just being made, {seen['refused']} refused, "
                f"{seen['outside']} from another; {len(tried)} resumed, "
                f"{outcomes['equal']} equal bytes"
            )
            print(f"  {lines[-1]}, {time.monotonic() - start:.0f} s, {dict(outcomes)}", flush=True)
    return Figure("; ".join(lines), bad == 0)
