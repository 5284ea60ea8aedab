"""The runs of a bundle, run again and compared with what they were."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import CheckpointError, DataError, ScenarioError
from fedsim.machine import fix_threads
from fedsim.runs import directory
from fedsim.runs.against import OPEN, Again, against, is_repetition
from fedsim.runs.compare import compare
from fedsim.runs.ended import UNDER_WAY, ended_run, read_again
from fedsim.runs.given import NOTHING_GIVEN
from fedsim.runs.go_on import Point, go_on
from fedsim.runs.run import Options, run_from
from fedsim.runs.unfinished import is_comparison
from fedsim.study.words import count
from fedsim.tools.bundle.unpack import Opened


class Repeating(NamedTuple):
    """How runs are repeated."""

    folder: Path  # of the repetitions, each in a folder of its name
    data_roots: tuple[str, ...]  # besides the working directory and the bundle
    device: str | None
    ask: Callable[[], bool]
    say: Callable[[str], None]
    trust_data: bool = False  # whether HDF5 files and workbooks in the bundle are read

    @property
    def options(self) -> dict[str, Any]:
        """Options of `fedsim.run` and `fedsim.compare`: nothing is shown or drawn."""
        return {"device": self.device, "ask": self.ask, "progress": False, "pictures": False}


def repeated(opened: Opened, repeating: Repeating) -> Iterator[Again]:
    """Run everything in a bundle again, in turn, and compare.

    A run that cannot be repeated here, for want of data, code or its original, is `OPEN`.
    """
    records = {name: directory.sound_record(path) for name, path in opened.runs.items()}
    for name in sorted(records, key=lambda name: "fork" in records[name]):  # forks come last
        try:
            _repeat(opened, name, records, repeating)
        except (CheckpointError, ScenarioError, DataError) as error:
            yield Again(name, OPEN, str(error).splitlines())
        else:
            yield against(name, opened.runs[name], repeating.folder / name)


def _repeat(
    opened: Opened, name: str, records: Mapping[str, dict[str, Any]], repeating: Repeating
) -> None:
    """Run one of the runs of a bundle again."""
    record = records[name]
    if record["status"] in UNDER_WAY:
        raise CheckpointError(f"the run has not ended (its status is {record['status']})")
    roots = (*map(str, opened.data_roots), *repeating.data_roots)
    path = opened.runs[name]
    trust = repeating.trust_data
    scenario = read_again(path, record, NOTHING_GIVEN, roots, "verify", trust)
    original = _original_of(record, records) if "fork" in record else None
    if "fork" in record and original is None:
        raise CheckpointError("it is a fork, and its original is not in the bundle; bundle both")

    repeating.say(f"{name}: running it again, {count(len(scenario.spec.seeds), 'seed')}")
    out = repeating.folder / name
    if is_comparison(record):
        if scenario.spec.numerics.threads == "auto":
            fix_threads(record["environment"]["threads"])
        compare(scenario, out=out, **repeating.options)
        return
    options = Options(
        started=time.monotonic(),
        given=NOTHING_GIVEN,
        device=repeating.device,
        ask=repeating.ask,
        threads=record["environment"]["threads"],
    )
    if original is not None:
        before = ended_run(repeating.folder / original, repeating.device, roots, "fork", "fork")
        point = Point(record["fork"]["round"], tuple(record["fork"].get("fresh", ())))
        go_on(before, scenario, point, out, options, progress=False)
    else:
        run_from(scenario, out, options, progress=False)


def _original_of(record: dict[str, Any], records: Mapping[str, dict[str, Any]]) -> str | None:
    """The name of the run that a fork goes on from; None where it is not in the bundle."""
    for name, other in records.items():
        is_same = other["hashes"]["scenario"] == record["fork"]["scenario"]
        if is_same and "fork" not in other and not is_comparison(other):
            return name
    return None


def run_like(opened: Opened, path: Path) -> str:
    """The name of the run of a bundle that a run directory repeats."""
    record = directory.sound_record(path)
    for name, run in opened.runs.items():
        if is_repetition(directory.sound_record(run), record):
            return name
    if len(opened.runs) == 1:
        return next(iter(opened.runs))
    known = ", ".join(opened.runs)
    raise CheckpointError(f"{path}: none of the runs there has its scenario: {known}")
