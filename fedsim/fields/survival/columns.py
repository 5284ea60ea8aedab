"""The table that survival analysis adds to a run."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added(
        "",
        (),
        ("method", "seed", "client", "time", "at_risk", "events", "survival"),
        table="survival",
    ),
]
