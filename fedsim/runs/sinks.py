"""Where `--log-to` sends the rows of a run: TensorBoard, MLflow, wandb; each is imported when it is named."""

import contextlib
import hashlib
import json
import netrc
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from fedsim.disk import files
from fedsim.errors import shortened
from fedsim.runs.result import slug

SECONDS = 1.0  # between two writes to MLflow, whose database takes 20 ms for one
BATCH = 900  # numbers that are sent to MLflow together; it takes 1000


class Start(NamedTuple):
    """What a sink is made from.

    Attributes:
      out: run directory.
      label: of method and variation.
      seed: of the run.
      config: the resolved scenario, and the seed.
      resume: whether the command goes on with what is there.
      session: number of the command in this process.
    """

    out: Path
    label: str
    seed: int
    config: dict[str, Any]
    resume: bool
    session: int = 0

    @property
    def name(self) -> str:
        """What people read."""
        return f"{shortened(self.label, 100)}.{self.seed}"


class Sink(Protocol):
    """One run in one tracker; it begins when it is made."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """The numbers of an evaluated round."""

    def close(self, summary: dict[str, Any] | None) -> None:
        """The run has ended with these entries of its summary; None: it was interrupted, or failed."""


class TensorBoard:
    """Event files under `tensorboard/<label>.<seed>/`, with the scenario as hyper-parameters."""

    def __init__(self, start: Start):
        from tensorboardX import SummaryWriter, summary  # pyright: ignore[reportMissingImports]

        folder = start.out / "tensorboard" / f"{slug(start.label)}.{start.seed}"
        for old in folder.glob("events.*"):
            files.remove(old)
        self.writer, self.step = SummaryWriter(str(folder), flush_secs=5), 0
        shown = dict.fromkeys(("summary/final", "summary/best"), 0.0)
        experiment, started, self.ended = summary.hparams(flat(start.config), shown)
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


class MLflow:
    """A run in the experiment of the scenario's name, at MLFLOW_TRACKING_URI, or else in the SQLite file `mlflow.db`."""

    def __init__(self, start: Start):
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
        from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]

        self.metric, self.pending, self.sent = Metric, [], time.monotonic()
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or _database(start))
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME") or start.config["name"]
        found = self.client.get_experiment_by_name(project)
        where = found.experiment_id if found else self.client.create_experiment(project)
        mark = hashlib.sha256(f"{start.out.resolve()} {start.label} {start.seed}".encode()).hexdigest()
        earlier = self.client.search_runs([where], f"tags.`fedsim.run` = '{mark}'") if start.resume else []
        if earlier:  # the newest one; what was configured there stays, as MLflow wants it
            self.run = earlier[0].info.run_id
            self.known = self._steps("bytes_up")
            self.client.update_run(self.run, status="RUNNING")
            return
        tags = {"fedsim.run": mark, "fedsim.label": start.label}
        self.run, self.known = self.client.create_run(where, tags=tags, run_name=start.name).info.run_id, set()
        params = [Param(_plain(name), shortened(str(value), 5000)) for name, value in flat(start.config).items()]
        for first in range(0, len(params), 100):  # no more at a time
            self.client.log_batch(self.run, params=params[first : first + 100])

    def _steps(self, name: str) -> set[int]:
        return {metric.step for metric in self.client.get_metric_history(self.run, name)}

    def log(self, step: int, values: dict[str, float]) -> None:
        self.step = step
        if step not in self.known:
            now = int(time.time() * 1000)
            self.pending += [self.metric(_plain(name), value, now, step) for name, value in values.items()]
        if len(self.pending) > BATCH or time.monotonic() - self.sent > SECONDS:
            self._send()

    def _send(self) -> None:
        if self.pending:
            self.client.log_batch(self.run, metrics=self.pending)
        self.pending, self.sent = [], time.monotonic()

    def close(self, summary: dict[str, Any] | None) -> None:
        self._send()
        if summary:
            self.known = self._steps("summary/k")
            self.log(self.step, numbers(summary))
            self._send()
            for name in summary.keys() - numbers(summary).keys():
                self.client.set_tag(self.run, _plain(name), str(summary[name]))
        self.client.set_terminated(self.run, "FINISHED" if summary else "KILLED")


def _database(start: Start) -> str:
    """Address of the local database; another one for every command, since MLflow never lets go of a file it has opened."""
    file = str(start.out.resolve() / "mlflow.db")
    if re.search("[?#%]", file):
        raise ValueError(f"no address can be made of {file}; choose an --out without ?, # and %")
    return f"sqlite:///{file}?cached_statements={128 + start.session}"


class Wandb:
    """A run with its files under `wandb/`: as WANDB_MODE says, else offline as long as nobody has logged in."""

    def __init__(self, start: Start):
        import wandb  # pyright: ignore[reportMissingImports]

        key = hashlib.sha256(f"{start.label} {start.seed}".encode()).hexdigest()[:12]
        earlier = sorted((start.out / "wandb").glob(f"*run-*-{key}*"))
        for folder in earlier:
            if folder.name.startswith("offline-"):
                files.remove(folder)
        said = wandb.setup().settings
        undecided = "WANDB_MODE" not in os.environ and said.mode == "online" and not _logged_in(said)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or re.sub(r"[/\\#?%:]", "-", start.config["name"])[:128],
            name=start.name,
            group=shortened(start.label, 100),
            id=earlier[-1].name.rpartition("-")[2] if earlier else key + uuid.uuid4().hex[:8],
            dir=start.out.resolve(),  # its service may live elsewhere
            config=start.config,
            mode="offline" if undecided else None,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(symlink=False, console="off", silent=True, save_code=False, x_disable_stats=True),
        )

        self._unlink()

    def _unlink(self) -> None:
        """Take out the link to a log elsewhere: a run directory with links in it is refused."""
        for path in Path(self.run.dir).parent.rglob("*"):
            if path.is_symlink():
                files.remove(path)

    def log(self, step: int, values: dict[str, float]) -> None:
        if step >= self.run.starting_step:
            self.run.log(values, step=step)

    def close(self, summary: dict[str, Any] | None) -> None:
        self.run.summary.update(summary or {})
        self.run.finish(exit_code=0 if summary else 1)
        self._unlink()


def _logged_in(settings: Any) -> bool:
    """Whether wandb would know to whom the rows belong."""
    if settings.api_key or settings.identity_token_file:
        return True
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        known = netrc.netrc(os.environ.get("NETRC"))
        return known.authenticators(urlsplit(settings.base_url).hostname or "") is not None
    return False


def flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested values by dotted path; lists as JSON, what is not set left out.

    >>> flat({"rounds": 5, "client": {"lr": 0.1, "decay": None}, "seeds": [0, 1]})
    {'rounds': 5, 'client.lr': 0.1, 'seeds': '[0, 1]'}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{above}{name}.")
        elif value is not None:
            found[f"{above}{name}"] = value if isinstance(value, str | int | float) else json.dumps(value)
    return found


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """Those entries that can be drawn."""
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _plain(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-./: ]", "_", name)
