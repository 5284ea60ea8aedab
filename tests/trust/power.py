"""Row 5: every state that a power cut may leave of a run directory is looked at, and many are gone on from."""

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
    """A run on tape, and its bits."""
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


def looked_at(
    found: list[powercut.Cut], tape: powercut.Tape, scratch: Path, rounds: int
) -> Counter:
    """What a run would go on from in each state: `last`, `newer` (a commit not yet flushed), `none yet`, or what is wrong."""
    came: Counter = Counter()
    seed = next(
        (step.other for step in tape.steps if step.name == "mkdir" and step.entry.endswith(".0")),
        -1,
    )
    for cut in found:
        lasting, newest = powercut.allowed(tape.steps, cut.moment).get(int(seed), (0, 0))
        cut.make(scratch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                got = powercut.gone_on_from(scratch / "checkpoints" / "scaffold.0", rounds)
                came[
                    "outside"
                    if not lasting <= got <= newest
                    else "last"
                    if got == lasting
                    else "newer"
                ] += 1
            except CheckpointError:
                came["refused"] += 1
        shutil.rmtree(scratch)
    return came


def resumed(
    found: list[powercut.Cut], scenario: dict, expected: dict[str, str], scratch: Path
) -> Counter:
    """States gone on from to the end."""
    came: Counter = Counter()
    for cut in found:
        cut.make(scratch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fedsim.run(scenario, out=scratch, resume=True, pictures=False)
                whole(scratch, expected)
                came["equal"] += 1
            except (CheckpointError, DirectoryError) as error:
                came[f"refused: {str(error).splitlines()[0].replace(str(scratch), 'RUN')}"] += 1
        shutil.rmtree(scratch)
    return came


def cuts(quick: bool) -> Figure:
    """Both kinds of client memory; names in order, and in any order."""
    store.SPARE, told, bad, began = 0, [], 0, time.monotonic()
    for kind, resident in KINDS.items():
        scenario = tiny(resident, seeds=[0])
        for ordered in (True, False):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                tape, expected = recorded(scenario, folder)
                found = list(powercut.cuts(tape.steps, ordered))
                some = powercut.thinned(found, 60) if quick else found
                seen = looked_at(some, tape, folder / "cut", scenario["rounds"])
                tried = powercut.thinned(found, 6 if quick else 300 if ordered else 100)
                came = resumed(tried, scenario, expected, folder / "cut")
            wrong = seen["outside"] + seen["refused"] + len(tried) - came["equal"]
            bad += wrong if ordered else 0
            order = "in order" if ordered else "in any order"
            told.append(
                f"{kind}, names {order}: {len(some)} states of {len(tape.steps)} operations, {seen['last']} go on from the "
                f"last commit or start where there is none, {seen['newer']} from the one just being made, "
                f"{seen['refused']} refused, {seen['outside']} from another; {len(tried)} resumed, {came['equal']} equal bytes"
            )
            print(f"  {told[-1]}, {time.monotonic() - began:.0f} s, {dict(came)}", flush=True)
    return Figure("; ".join(told), bad == 0)
