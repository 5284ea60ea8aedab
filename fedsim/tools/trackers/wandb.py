"""A run in wandb."""

import contextlib
import hashlib
import netrc
import os
import re
import uuid
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from fedsim.disk import files
from fedsim.errors import shortened
from fedsim.tools.trackers.tracked import TrackedRun

MAX_CHARACTERS = 128  # of a project's name


class Wandb:
    """A run with its files under `wandb/`; offline until a user logs in, or as WANDB_MODE says."""

    def __init__(self, tracked: TrackedRun):
        import wandb  # pyright: ignore[reportMissingImports]

        key = hashlib.sha256(f"{tracked.label} {tracked.seed}".encode()).hexdigest()[:12]
        earlier = sorted((tracked.out / "wandb").glob(f"*run-*-{key}*"))
        for folder in earlier:
            if folder.name.startswith("offline-"):
                files.remove(folder)
        id = earlier[-1].name.rpartition("-")[2] if earlier else key + uuid.uuid4().hex[:8]

        project = os.environ.get("WANDB_PROJECT")
        if not project:
            project = re.sub(r"[/\\#?%:]", "-", tracked.config["name"])[:MAX_CHARACTERS]
        self.run = wandb.init(
            project=project,
            name=tracked.name,
            group=shortened(tracked.label, 100),
            id=id,
            dir=tracked.out.resolve(),  # wandb's service may have another working directory
            config=tracked.config,
            mode=_mode(wandb.setup().settings),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                symlink=False, console="off", silent=True, save_code=False, x_disable_stats=True
            ),
        )
        self._remove_links()

    def _remove_links(self) -> None:
        """Remove the link to a log elsewhere: a run directory with links in it is refused."""
        for path in Path(self.run.dir).parent.rglob("*"):
            if path.is_symlink():
                files.remove(path)

    def log(self, step: int, values: dict[str, float]) -> None:
        if step >= self.run.starting_step:
            self.run.log(values, step=step)

    def close(self, summary: dict[str, Any] | None) -> None:
        self.run.summary.update(summary or {})
        self.run.finish(exit_code=0 if summary else 1)
        self._remove_links()


def _mode(settings: Any) -> Literal["offline"] | None:
    """`offline` where wandb would ask who logs in; None: wandb's own mode."""
    if "WANDB_MODE" in os.environ or settings.mode != "online" or _is_logged_in(settings):
        return None
    return "offline"


def _is_logged_in(settings: Any) -> bool:
    """Whether wandb knows to whom the rows belong."""
    if settings.api_key or settings.identity_token_file:
        return True
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        logins = netrc.netrc(os.environ.get("NETRC"))
        host = urlsplit(settings.base_url).hostname or ""
        return logins.authenticators(host) is not None
    return False
