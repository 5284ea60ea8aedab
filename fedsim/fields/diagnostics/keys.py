"""`evaluate.diagnostics`."""

from fedsim.scenario.added import AddedKeys


class DiagnosticsKeys:
    """The key of `evaluate`."""

    diagnostics: bool = False
    """Measure the clients' updates: mean norm, drift around their mean, mean cosine between pairs,
    in `rounds.csv`."""


KEYS = [AddedKeys("evaluate", after="target", keys=DiagnosticsKeys)]
