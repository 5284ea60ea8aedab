"""The columns of servers with several models; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("clients", ("classes",), ("cluster", "group")),
    Added("summary", ("client_accuracy_std",), ("adjusted_rand",)),
    Added("", ("clients",), ("method", "seed", "round", "client", "cluster"), table="clusters"),
]
