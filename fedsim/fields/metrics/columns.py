"""The table that metrics add to a run."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("", (), ("method", "seed", "label", "decision", "samples"), table="confusion"),
]
