"""A stranger's run directories: a sound run with something planted in it, and hashes that fit."""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from directories import rehashed
from hostile.registry import canary, pickled

import fedsim
from fedsim.disk.checkpoint import FORMAT, MAGIC, Snapshot, decode, encode
from fedsim.runs import directory
from fedsim.runs.record import identity

SCENARIO = {
    "name": "tiny",
    "rounds": 2,
    "seeds": [0],
    "method": "scaffold",
    "data": {"kind": "gaussian_blobs", "clients": 4, "samples": 60, "classes": 3, "shape": [3]},
    "cohort": {"kind": "uniform", "size": 2},
    "checkpoint": {"rounds": 1, "resident_mb": 0.0},
}
SEED = "checkpoints/scaffold.0"
MODEL = "model.scaffold.0.safetensors"


def resumed(out: Path) -> Any:
    """Go on with the run."""
    return fedsim.run({**SCENARIO, "rounds": 3}, out=out, resume=True, pictures=False)


def verified(out: Path) -> Any:
    """Confirm the run: what is not confirmed is refused."""
    found = fedsim.verify(out)
    assert not found.equal
    raise fedsim.DataError("; ".join(check.detail for check in found.checks if not check.ok))


def compared(out: Path) -> Any:
    """Compare the run with itself."""
    return fedsim.diff(out, out)


def loaded(out: Path) -> Any:
    """Load its model."""
    return fedsim.load_model(out / MODEL)


def commits(out: Path, content: bytes) -> None:
    """All commits become this."""
    for path in (out / SEED).glob("state-*.ckpt"):
        path.write_bytes(content)
    rehashed(out)


def checkpoint(header: Any) -> bytes:
    """A commit with any header; its hash fits."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = b"%s %d 0.2.0\n" % (MAGIC, FORMAT) + struct.pack("<Q", len(text)) + text
    return body + hashlib.sha256(body).digest()


def of_leaf(kind: str, length: int) -> bytes:
    """A commit of one array."""
    return checkpoint({"values": {}, "leaves": [["a", kind, [length]]]})


def in_commits(out: Path, **values: dict[str, Any]) -> None:
    """Change what all commits say of parts of the state."""
    for path in (out / SEED).glob("state-*.ckpt"):
        old, arrays = decode(path.read_bytes())
        changed = {name: {**old[name], **value} for name, value in values.items()}
        path.write_bytes(b"".join(encode(Snapshot({**old, **changed}, arrays))))
    rehashed(out)


def logged(out: Path, text: bytes) -> None:
    """The log becomes this, and all commits agree with it."""
    (out / SEED / "log.jsonl").write_bytes(text)
    sha = hashlib.sha256(text).hexdigest()
    log = {"length": len(text), "sha256": sha, "open": len(text), "open_sha256": sha}
    in_commits(out, log=log)


def of_data(out: Path, **data: Any) -> None:
    """Change the data section of the recorded scenario, and all commits with it."""
    record = json.loads((out / "run.json").read_text())
    record["scenario"] = {**record["scenario"], "data": data}
    (out / "scenario.yaml").write_text(directory.yaml_of(record["scenario"]))
    in_commits(out, identity=identity(record, 0))
    rehashed(out, scenario=record["scenario"])


def recorded(out: Path, content: bytes) -> None:
    """The record becomes this."""
    (out / "run.json").write_bytes(content)


def replaced(path: Path, make: Callable[[Path], Any]) -> None:
    """Another thing under the name of a file."""
    path.unlink(missing_ok=True)
    make(path)


def linked(out: Path, name: str) -> None:
    """A file of the run becomes a link to somebody else's."""
    replaced(out / name, lambda path: path.symlink_to(victims(out) / "thesis.txt"))


def modelled(out: Path, content: bytes) -> None:
    (out / MODEL).write_bytes(content)
    rehashed(out)


def holes(name: str) -> Callable[[Path], None]:
    """What makes a file of the run one of six gigabytes that take no room."""
    return lambda out: os.truncate(out / name, 6 << 30)


def victims(out: Path) -> Path:
    """A folder of somebody else's, with a file in it."""
    folder = out.parent / "victim"
    folder.mkdir()
    (folder / "thesis.txt").write_text("two years")
    return folder


def into_the_folder(out: Path) -> None:
    """The commits of the run lie in a folder of somebody else's, where a run would tidy up."""
    folder = victims(out)
    for path in (out / SEED).iterdir():
        path.rename(folder / path.name)
    (out / SEED).rmdir()
    (out / SEED).symlink_to(folder)


def tensors(header: bytes) -> bytes:
    """A model file with any header."""
    return struct.pack("<Q", len(header)) + header


HUGE = json.dumps({"W": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
PLANTED: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "commits that are pickles, resumed": (lambda out: commits(out, pickled(out)), resumed),
    "commits that are pickles, verified": (lambda out: commits(out, pickled(out)), verified),
    "a commit of petabytes": (lambda out: commits(out, of_leaf("float64", 2**50)), resumed),
    "a commit of objects": (lambda out: commits(out, of_leaf("object", 1)), resumed),
    "a commit that is a bomb of brackets": (
        lambda out: commits(out, checkpoint(b"[" * 100_000)), resumed,
    ),
    "a commit of round ten billion, resumed": (
        lambda out: in_commits(out, run={"round": 10**10}), resumed,
    ),
    "a log that is a bomb of brackets, resumed": (lambda out: logged(out, b"[" * 100_000), resumed),
    "a log that is a pickle": (lambda out: logged(out, pickled(out)), verified),
    "a record that is a pickle": (lambda out: recorded(out, pickled(out)), resumed),
    "a record that is a bomb of brackets": (lambda out: recorded(out, b"[" * 100_000), resumed),
    "a record that is a pipe": (lambda out: replaced(out / "run.json", os.mkfifo), compared),
    "a record that is a device": (
        lambda out: replaced(out / "run.json", lambda p: p.symlink_to("/dev/zero")), verified,
    ),
    "a record with links of a stranger": (
        lambda out: rehashed(out, own_links={"rule os.system": "0" * 64}), verified,
    ),
    "a record with a method upwards": (lambda out: rehashed(out, method="../../../evil"), verified),
    "a record of data elsewhere": (
        lambda out: of_data(out, kind="csv", path=str(out.parent / "secret.csv"), sha256=None),
        verified,
    ),
    "a record of a device as data": (
        lambda out: of_data(out, kind="csv", path="/dev/zero"), verified,
    ),
    "a scenario with tags": (
        lambda out: (
            (out / "scenario.yaml").write_text(
                f"name: !!python/object/apply:os.system ['touch {canary(out)}']\n"
            ),
            rehashed(out),
        ), verified,
    ),
    "a model that is a pickle, loaded": (lambda out: modelled(out, pickled(out)), loaded),
    "a model of petabytes": (lambda out: modelled(out, tensors(HUGE)), loaded),
    "a model with a bomb for a header": (
        lambda out: modelled(out, tensors(b'{"a":' * 20_000)), loaded,
    ),
    "a lock that is a link": (lambda out: linked(out, ".lock"), resumed),
    "a file beside that is a link": (lambda out: linked(out, "run.json.tmp"), resumed),
    "a log that is a link": (lambda out: linked(out, f"{SEED}/log.jsonl"), resumed),
    "client memory that is a link": (lambda out: linked(out, f"{SEED}/memory-0.rows"), resumed),
    "commits in a folder of somebody else's": (into_the_folder, resumed),
    "commits in a folder of somebody else's, started anew": (
        into_the_folder, lambda out: fedsim.run(SCENARIO, out=out, force=True, pictures=False),
    ),
    "a record of six gigabytes of holes": (holes("run.json"), compared),
    "a record of lists": (lambda out: recorded(out, b"[" + b"[]," * 3_500_000 + b"[]]"), resumed),
    "a scenario of six gigabytes of holes": (holes("scenario.yaml"), verified),
    "a table of six gigabytes of holes": (holes("rounds.csv"), compared),
    "a log of six gigabytes of holes": (holes(f"{SEED}/log.jsonl"), resumed),
    "a model of six gigabytes of holes": (holes(MODEL), loaded),
}  # fmt: skip
