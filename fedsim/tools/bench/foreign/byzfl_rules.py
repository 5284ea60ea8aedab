"""The rules of `fedsim doctor --bench rules` that ByzFL has, on torch tensors.

Two are not quite ours: its geometric median always takes three steps of Weiszfeld's iteration, and
its Krum adds up one distance more.
"""

import byzfl
import torch

# As in fedsim/tools/bench/plain_rules.py.
F = 10
RADIUS = 1.0

MIXED_BYTES = 2**32  # its mixing copies K − f rows for each of K


def works(x):
    """The rules on rows `x` `[K, D]`: functions that return `[D]`, by name."""
    rows = torch.from_numpy(x)

    def on_rows(make, **parameters):
        # A new one for every call: centred clipping begins where its last call ended.
        return lambda: make(**parameters)(rows)

    rules = {
        "mean": on_rows(byzfl.Average),
        "median": on_rows(byzfl.Median),
        "trimmed_mean": on_rows(byzfl.TrMean, f=F),
        "mean_around_median": on_rows(byzfl.Meamed, f=F),
        "krum": on_rows(byzfl.Krum, f=F),
        "multi_krum": on_rows(byzfl.MultiKrum, f=F),
        "monna": on_rows(byzfl.MoNNA, f=F),
        "geometric_median": on_rows(byzfl.GeometricMedian),
        "centered_clipping": on_rows(byzfl.CenteredClipping, tau=RADIUS),
    }
    if (len(x) - F) * x.nbytes < MIXED_BYTES:
        rules["mix_neighbours"] = lambda: byzfl.NNM(f=F)(rows).mean(0)
    return rules
