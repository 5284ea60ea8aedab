"""The columns of asynchronous schedules; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("rounds", ("bytes_wasted", "skipped"), ("staleness_mean", "staleness_max")),
    Added("", ("partition",), ("method", "seed", "age", "messages"), table="staleness"),
]
