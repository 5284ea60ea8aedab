"""A run in TensorBoard."""

import socket
from typing import Any

from fedsim.disk import files
from fedsim.runs.trackers.tracked import TrackedRun, flat, numbers


class TensorBoard:
    """Event files under `tensorboard/<label>.<seed>/`, with the scenario as hyper-parameters."""

    def __init__(self, tracked: TrackedRun):
        from tensorboardX import SummaryWriter, summary  # pyright: ignore[reportMissingImports]

        name = tracked.layout.names[tracked.label]
        self.folder = folder = tracked.out / "tensorboard" / f"{name}.{tracked.seed}"
        for old in folder.glob("events.*"):
            files.remove(old)
        self.writer, self.step = SummaryWriter(str(folder), flush_secs=5), 0
        metrics = dict.fromkeys(("summary/final", "summary/best"), 0.0)
        experiment, started, self.ended = summary.hparams(flat(tracked.config), metrics)
        for part in (experiment, started):
            self.writer.file_writer.add_summary(part)  # type: ignore[union-attr]

    def log(self, step: int, values: dict[str, float]) -> None:
        self.step = step
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self, summary: dict[str, Any] | None) -> None:
        if summary:
            self.log(self.step, numbers(summary))
            self.writer.file_writer.add_summary(self.ended)  # type: ignore[union-attr]
        self.writer.close()
        for file in self.folder.glob(
            f"events.*.{(host := socket.gethostname())}"
        ):  # as tensorboardX calls it
            file.rename(file.with_name(f"{file.name.removesuffix(host)}fedsim"))
