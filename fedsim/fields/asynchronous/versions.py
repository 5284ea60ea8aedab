"""Models that clients in flight were given, from which an asynchronous round trains."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.disk.checkpoint import leaves_by_name, restore_tree
from fedsim.types import Shared


class Row(NamedTuple):
    """A version that is a row of a table."""

    table: Shared  # [rows, ...]
    number: int


class Versions:
    """Shared variables by version, the number of steps that the server had taken.

    They are on the device; the newest version is the server's own arrays, not a copy.
    """

    def __init__(self, version: int, shared: Shared):
        self.models: dict[int, Shared | Row] = {version: shared}

    def __getitem__(self, version: int) -> Shared:
        """Return the variables of a version."""
        model = self.models[version]
        return _row(*model) if isinstance(model, Row) else model

    def add(self, version: int, shared: Shared) -> None:
        """Add a version that clients may be given from now on; what is known of it stays."""
        self.models.setdefault(version, shared)

    def release(self, version: int, needed: Iterable[int]) -> None:
        """Forget versions older than `version`, except those that clients still train from."""
        retained = {version, *needed}
        self.models = {
            v: shared for v, shared in self.models.items() if v > version or v in retained
        }

    def table(self, versions: Sequence[int], rows: int) -> tuple[Shared, dict[int, int]]:
        """Return a table of so many rows with these versions, and the row of each.

        Where all are rows of one such table already, it is that one.
        """
        known = {}
        for version in versions:
            model = self.models[version]
            if isinstance(model, Row):
                known[version] = model
        if len(known) == len(versions):
            first = known[versions[0]].table
            same = all(row.table is first for row in known.values())
            if same and tree.rows(first) == rows:
                return first, {version: row.number for version, row in known.items()}

        models = [self[version] for version in versions]
        table = _stack(models + models[-1:] * (rows - len(models)))
        return table, {version: number for number, version in enumerate(versions)}

    def add_table(self, table: Shared, rows: Mapping[int, int]) -> None:
        """Note the table that versions are rows of from now on."""
        for version, number in rows.items():
            self.models[version] = Row(table, number)

    def arrays(self, version: int, needed: Iterable[int]) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores: the needed versions but the newest, the server's own."""
        arrays = {}
        for v in needed:
            if v != version:
                arrays |= leaves_by_name(f"version{v}", self[v])
        return arrays

    def restore(
        self, arrays: dict[str, np.ndarray], version: int, shared: Shared, needed: Iterable[int]
    ) -> None:
        """Resume from what `arrays` returned.

        Args:
          needed: versions that clients still train from.
        """
        older = {
            int(v): restore_tree(f"version{v}", arrays, shared) for v in needed if v != version
        }
        self.models = {**jax.device_put(older), version: shared}


_row = jax.jit(tree.take)
_stack = jax.jit(tree.stack)
