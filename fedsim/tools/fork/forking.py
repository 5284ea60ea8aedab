"""`fedsim fork`: go on from a round of a finished run as another scenario."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fedsim.errors import CheckpointError
from fedsim.runs.ended import ended_run
from fedsim.runs.execute import Watch
from fedsim.runs.given import Given
from fedsim.runs.go_on import SERVER, Point, go_on
from fedsim.runs.result import Result
from fedsim.runs.run import Options, argument_edits, texts_of
from fedsim.scenario import read
from fedsim.scenario.load import confined


def fork(
    path: str | os.PathLike[str],
    *,
    round: int,
    out: str | os.PathLike[str],
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    edits: str | Sequence[str] = (),
    method: Any = None,
    seeds: int | Sequence[int] | None = None,
    fresh: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
    watch: Watch | None = None,
    progress: bool | None = None,
    ask: Callable[[], bool] = lambda: False,
    pictures: bool = True,
) -> Result:
    """Go on from a round of a finished run as another scenario.

    With nothing set, the fork is the original byte for byte. Its directory is that of a run, which
    `verify` replays.

    Args:
      path: the directory of the original, one run of one method.
      round: the last round that both have in common, from 1 to the one before the original's last.
      out: the directory of the fork.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      edits: one or several `PATH=VALUE` texts, as `--set` takes them: another rule, attack, cohort,
        codec ...
      method: a method that replaces what it owns.
      seeds: some of the original's seeds: a number n (0 to n − 1) or a sequence; left out: all.
      fresh: `["server"]` begins what stages, rule and optimisers remember anew, which has to be
        where the fork has others.
      force: replace an earlier run in `out`.
      resume: continue the fork there, which was interrupted.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.
      watch: called as in `fedsim.run`.
      progress: as in `fedsim.run`.
      ask: as in `fedsim.run`.
      pictures: as in `fedsim.run`.

    Returns:
      Frames, models and states of the fork, as `fedsim.run` returns them; rows until `round` are
      the original's.

    Raises:
      ScenarioError: for a scenario that cannot be run as written.
      DirectoryError: where there is no run that can be forked, and for `out` as in `fedsim.run`.
      CheckpointError: where the fork shapes differently what the state holds, and where the
        original cannot be repeated here.
    """
    started = time.monotonic()
    unknown = set(fresh) - {SERVER}
    if unknown:
        raise ValueError(f"fresh: expected server; found {', '.join(sorted(map(str, unknown)))}")

    given = Given(data, model, params, loss)
    original = ended_run(Path(path), device, data_roots, "fork", "fork", given)
    last = original.record["scenario"]["rounds"]
    if not 1 <= round < last:
        raise CheckpointError(f"{path}: round {round}: a fork begins after round 1 to {last - 1}")

    all_edits = (*texts_of(edits), *argument_edits(None, seeds))
    scenario = read(original.scenario.document, all_edits, method)
    scenario = confined(scenario, original.path, data_roots)
    options = Options(
        started=started,
        given=given,
        force=force,
        resume=resume,
        device=device,
        watch=watch,
        ask=ask,
        pictures=pictures,
    )
    return go_on(original, scenario, Point(round, tuple(fresh)), out, options, progress)
