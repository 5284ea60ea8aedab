"""What no run may depend on: after which round it was cut, and the blocks in which it trains."""

from pathlib import Path

import jax
import numpy as np
from directories import bits

import fedsim


def run_of_same_bytes(written: dict, folder: Path, cut: int, **given) -> fedsim.Result:
    """A run that is verified, and that has the bytes of others with the same scenario.

    One of them ends after `cut` rounds and is resumed, another trains in blocks of two clients.
    `given` is what else `fedsim.run` takes, such as data and a partition.
    """
    numerics = {"lanes": 2, **written.get("numerics", {})}
    written = {**written, "numerics": numerics}
    written["checkpoint"] = {"rounds": 1, **written.get("checkpoint", {})}
    given["pictures"] = False
    whole = fedsim.run(written, out=folder / "whole", **given)
    fedsim.run({**written, "rounds": cut}, out=folder / "cut", **given)
    fedsim.run(written, out=folder / "cut", resume=True, **given)
    assert bits(folder / "cut") == bits(folder / "whole")
    del given["pictures"]
    assert fedsim.verify(folder / "whole", **given).equal

    blocks = fedsim.run({**written, "numerics": {**numerics, "block": 2}}, **given)
    assert blocks.records["rounds"] == whole.records["rounds"]
    assert blocks.records["clients"] == whole.records["clients"]
    jax.tree.map(np.testing.assert_array_equal, blocks.model(), whole.model())
    return whole
