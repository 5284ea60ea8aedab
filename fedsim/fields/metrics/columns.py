"""The table that metrics add to a run."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("", (), ("method", "seed", "model", "label", "decision", "samples"), table="confusion"),
]
