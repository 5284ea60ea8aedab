"""The columns of edges; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("rounds", ("bytes_down",), ("cloud_bytes_up", "cloud_bytes_down")),
]
