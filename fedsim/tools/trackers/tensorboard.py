"""A run in TensorBoard."""

import socket
from typing import Any

from fedsim.disk import files
from fedsim.tools.trackers.tracked import TrackedRun, flat, numbers


class TensorBoard:
    """Event files under `tensorboard/<label>.<seed>/`, with the scenario as hyper-parameters."""

    def __init__(self, tracked: TrackedRun):
        from tensorboardX import SummaryWriter, summary  # pyright: ignore[reportMissingImports]

        name = tracked.run_files.names[tracked.label]
        self.folder = tracked.out / "tensorboard" / f"{name}.{tracked.seed}"
        for old in self.folder.glob("events.*"):
            files.remove(old)
        self.writer = SummaryWriter(str(self.folder), flush_secs=5)
        self.step = 0

        metrics = dict.fromkeys(("summary/final", "summary/best"), 0.0)
        experiment, started, self.ended = summary.hparams(flat(tracked.config), metrics)
        self._write(experiment)
        self._write(started)

    def _write(self, entry: Any) -> None:
        """Write a summary of tensorboardX."""
        self.writer.file_writer.add_summary(entry)  # type: ignore[union-attr]

    def log(self, step: int, values: dict[str, float]) -> None:
        self.step = step
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self, summary: dict[str, Any] | None) -> None:
        if summary:
            self.log(self.step, numbers(summary))
            self._write(self.ended)
        self.writer.close()

        # tensorboardX names the files by the host, which a run directory does not name.
        host = socket.gethostname()
        for file in self.folder.glob(f"events.*.{host}"):
            file.rename(file.with_name(f"{file.name.removesuffix(host)}fedsim"))
