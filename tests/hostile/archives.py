"""Archives of a stranger's: pickles, code, and members that lie."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hostile.registry import Payload, attacks, canary, opened, pickled

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.arange(12) % 3


def array(values: np.ndarray) -> bytes:
    """An array as a member of an archive."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def of_code(folder: Path) -> bytes:
    """A member whose header would be executed."""
    shape = f"__import__('os').system('touch {canary(folder)}')"
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header


def objects(folder: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Payload(folder)] * 12, object), allow_pickle=True)
    return file.getvalue()


def packed(**members: bytes) -> bytes:
    """An archive of samples, or of these members in their place."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"x": array(X), "y": array(Y), **members}.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def encrypted(folder: Path) -> bytes:
    content = bytearray(packed())
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.find(signature)
        content[at + flags] |= 1
    return bytes(content)


ARCHIVES: dict[str, Callable[[Path], bytes]] = {
    "a pickle in place of an archive": pickled,
    "an array of objects": lambda f: packed(y=objects(f)),
    "a shape of code": lambda f: packed(x=of_code(f)),
    "a member twice": lambda f: packed(z=array(X)).replace(b"z.npy", b"x.npy"),
    "an encrypted member": encrypted,
}


def archive(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "w.npz").write_bytes(ARCHIVES[name](folder))
    (folder / "s.yaml").write_text("name: x\ndata: {kind: npz, path: w.npz, clients: 2}\n")
    return opened(folder / "s.yaml")


attacks("archive", ARCHIVES, archive)
