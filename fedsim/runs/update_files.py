"""The updates that a run keeps (`checkpoint.updates`): a file of safetensors for each round.

A file is complete or absent. A run that resumes from a commit deletes those of later rounds, and
writes them again with the same bits; `run.json` has the hashes of all of them at the end.
"""

import re
from pathlib import Path

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fedsim.disk import files
from fedsim.engine.recording import COLUMNS, RoundUpdates
from fedsim.engine.run import Run
from fedsim.errors import CorruptError
from fedsim.tree import Tree

SUFFIX = ".safetensors"


class UpdateFiles:
    """The folder with the updates of one run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, round: int) -> Path:
        """Return the file of a round."""
        return self.folder / f"round-{round:06}{SUFFIX}"

    def write(self, updates: RoundUpdates) -> None:
        """Write the updates of a round; arrays are named by field and path, `updates/layer0/W`."""
        fields = updates._asdict()
        round = fields.pop("round")
        tensors = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(fields):
            tensors[_name(path)] = np.asarray(leaf, order="C")
        files.write(self.path(round), safetensors.save(tensors))

    def remove_after(self, round: int) -> None:
        """Delete the files of later rounds, which a run that resumes writes again."""
        for later in self.rounds():
            if later > round:
                files.remove(self.path(later))

    def rounds(self) -> list[int]:
        """Return the rounds that have files, in order."""
        if not self.folder.is_dir():
            return []
        rounds = []
        with files.reporting_os_errors(self.folder):
            for path in self.folder.iterdir():
                match = re.fullmatch(rf"round-([0-9]{{6,18}}){SUFFIX}", path.name)
                if match and self.path(int(match[1])) == path:
                    rounds.append(int(match[1]))
        return sorted(rounds)

    def read(self, round: int, run: Run) -> RoundUpdates:
        """Read the updates of a round back.

        Args:
          run: a run of the same scenario, which has trees of the same structure.

        Raises:
          CorruptError: when the file is not what such a run writes.
        """
        path = self.path(round)
        try:
            tensors = safetensors.load_file(path)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = ascii(str(error))[1:-1][:200]
            raise CorruptError(f"{path}: is damaged: {reason}") from None
        try:
            of_path = lambda path, _: tensors[_name(path)]
            fields = jax.tree_util.tree_map_with_path(of_path, _structure(run))
        except KeyError as error:
            raise CorruptError(f"{path}: is damaged: it has no {error.args[0]}") from None
        return RoundUpdates(round=round, **fields)


def _structure(run: Run) -> dict[str, Tree]:
    """Return the fields of a round's updates, but for its number, as trees of anything."""
    shared = run.server.shared
    client = run.program.server.client
    return {
        "clients": 0,
        "weights": 0,
        "params_before": shared["params"],
        "params_after": shared["params"],
        "updates": run.program.server.pipeline.shared_params(shared),
        "stats_before": shared["stats"],
        "stats": {} if client.travel.stats == "kept" else shared["stats"],
        "columns": dict.fromkeys(COLUMNS, 0),
    }


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
