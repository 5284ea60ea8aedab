"""A run in wandb."""

import contextlib
import hashlib
import netrc
import os
import re
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedsim.disk import files
from fedsim.errors import shortened
from fedsim.runs.trackers.tracked import TrackedRun


class Wandb:
    """A run with its files under `wandb/`: as WANDB_MODE says, else offline as long as nobody has logged in."""

    def __init__(self, tracked: TrackedRun):
        import wandb  # pyright: ignore[reportMissingImports]

        key = hashlib.sha256(f"{tracked.label} {tracked.seed}".encode()).hexdigest()[:12]
        earlier = sorted((tracked.out / "wandb").glob(f"*run-*-{key}*"))
        for folder in earlier:
            if folder.name.startswith("offline-"):
                files.remove(folder)
        settings = wandb.setup().settings
        undecided = (
            "WANDB_MODE" not in os.environ
            and settings.mode == "online"
            and not _logged_in(settings)
        )
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT")
            or re.sub(r"[/\\#?%:]", "-", tracked.config["name"])[:128],
            name=tracked.name,
            group=shortened(tracked.label, 100),
            id=earlier[-1].name.rpartition("-")[2] if earlier else key + uuid.uuid4().hex[:8],
            dir=tracked.out.resolve(),  # its service may live elsewhere
            config=tracked.config,
            mode="offline" if undecided else None,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                symlink=False, console="off", silent=True, save_code=False, x_disable_stats=True
            ),
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
