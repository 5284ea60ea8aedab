"""Archives of a stranger's: pickles, bombs, and headers and lists that lie."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hostile.registry import Attack, Payload, attacks, canary, opened, pickled

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.arange(12) % 3


def array(values: Any, **header: Any) -> bytes:
    """An array as a member of an archive; `header` replaces what its header says."""
    file = io.BytesIO()
    values = np.asarray(values)
    honest = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_1_0(file, {**honest, **header})
    file.write(values.tobytes())
    return file.getvalue()


def headed(header: bytes, version: int = 1, length: int | None = None) -> bytes:
    """A member with any header text, and any length in front of it."""
    size = struct.pack("<H" if version == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header


def objects(folder: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Payload(folder)] * 12, object), allow_pickle=True)
    return file.getvalue()


def structured(folder: Path) -> bytes:
    file = io.BytesIO()
    kind = np.dtype([("a", "<f8"), ("b", "O")])
    np.save(file, np.array([(1.0, Payload(folder))] * 12, kind), allow_pickle=True)
    return file.getvalue()


def packed(folder: Path, members: list[tuple[str, bytes]], **options: Any) -> bytes:
    """An archive of these members; a member whose name stands there twice is written twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = options.get("compression", zipfile.ZIP_STORED)
            archive.filelist.append(info) if content is None else archive.writestr(info, content)
    return file.getvalue()


def twice(folder: Path) -> bytes:
    content = packed(folder, [("x.npy", array(X)), ("y.npy", array(Y)), ("z.npy", array(X))])
    return content.replace(b"z.npy", b"x.npy")


def linked(folder: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", array(X))
        archive.writestr("y.npy", array(Y))
        info = zipfile.ZipInfo("x_test.npy")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


def encrypted(folder: Path) -> bytes:
    content = bytearray(sound(folder))
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.find(signature)
        content[at + flags] |= 1
    return bytes(content)


def sound(folder: Path, **options: Any) -> bytes:
    return packed(folder, [("x.npy", array(X)), ("y.npy", array(Y))], **options)


def wrong_deflate(folder: Path) -> bytes:
    content = bytearray(sound(folder, compression=zipfile.ZIP_DEFLATED))
    content[45:80] = b"\xff" * 35
    return bytes(content)


def one_zeros(folder: Path) -> bytes:
    zeros = np.zeros(40_000_000, np.float32).reshape(-1, 40)
    return packed(
        folder, [("x.npy", array(zeros)), ("y.npy", array(Y))], compression=zipfile.ZIP_DEFLATED
    )


def thousands(folder: Path) -> bytes:
    return packed(folder, [(f"a{i}.npy", b"") for i in range(30_000)])


SHAPE = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }\n"
ARCHIVES: dict[str, Callable[[Path], bytes]] = {
    "a pickle in place of an archive": pickled,
    "a pickle in place of an array": lambda f: packed(
        f, [("x.npy", pickled(f)), ("y.npy", array(Y))]
    ),
    "an array of objects": lambda f: packed(f, [("x.npy", array(X)), ("y.npy", objects(f))]),
    "ids that are objects": lambda f: packed(
        f, [("x.npy", array(X)), ("y.npy", array(Y)), ("client.npy", objects(f))]
    ),
    "records with objects": lambda f: packed(f, [("x.npy", structured(f)), ("y.npy", array(Y))]),
    "pickles beside": lambda f: packed(f, [("x.pkl", pickled(f)), ("y.pkl", pickled(f))]),
    "a shape of petabytes": lambda f: packed(
        f, [("x.npy", array(X, shape=(2**50, 2))), ("y.npy", array(Y))]
    ),
    "a negative shape": lambda f: packed(
        f, [("x.npy", array(X, shape=(-12, -2))), ("y.npy", array(Y))]
    ),
    "a shape that overflows": lambda f: packed(
        f, [("x.npy", array(X, shape=(2**63, 2**63))), ("y.npy", array(Y))]
    ),
    "a shape of booleans": lambda f: packed(
        f, [("x.npy", array(X, shape=(True, False))), ("y.npy", array(Y))]
    ),
    "a shape of code": lambda f: packed(
        f,
        [
            ("x.npy", headed(SHAPE % f"__import__('os').system('touch {canary(f)}')".encode())),
            ("y.npy", array(Y)),
        ],
    ),
    "a shape of brackets": lambda f: packed(
        f, [("x.npy", headed(SHAPE % (b"(" * 9_000))), ("y.npy", array(Y))]
    ),
    "a type of text": lambda f: packed(
        f, [("x.npy", array(X, descr="<U1000000")), ("y.npy", array(Y))]
    ),
    "a type of nothing": lambda f: packed(
        f, [("x.npy", array(X, descr="|V0")), ("y.npy", array(Y))]
    ),
    "a header of four gigabytes": lambda f: packed(
        f, [("x.npy", headed(b"{", version=2, length=2**32 - 1)), ("y.npy", array(Y))]
    ),
    "a header of a megabyte": lambda f: packed(
        f, [("x.npy", headed(SHAPE % (b"12, " * 250_000), version=2)), ("y.npy", array(Y))]
    ),
    "a header without its end": lambda f: packed(
        f, [("x.npy", headed(b"", length=500)), ("y.npy", array(Y))]
    ),
    "a version of the future": lambda f: packed(
        f, [("x.npy", headed(b"{}", version=9)), ("y.npy", array(Y))]
    ),
    "a link as a member": linked,
    "a member twice": twice,
    "thirty thousand members": thousands,
    "a bomb of zeros": one_zeros,
    "an encrypted member": encrypted,
    "an archive that is cut off": lambda f: sound(f)[:400],
    "an archive without its list": lambda f: sound(f)[:-22],
    "a stream that is no stream": wrong_deflate,
    "an archive of nothing": lambda f: packed(f, []),
    "an empty file": lambda f: b"",
}


def _of_archive(name: str) -> Attack:
    def make(folder: Path):
        (folder / "w.npz").write_bytes(ARCHIVES[name](folder))
        (folder / "s.yaml").write_text("name: x\ndata: {kind: npz, path: w.npz, clients: 2}\n")
        return opened(folder / "s.yaml")

    return make


attacks("archive", ARCHIVES, _of_archive)
