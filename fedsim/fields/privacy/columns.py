"""The columns of privacy; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("rounds", ("batches_cut",), ("epsilon",)),
    Added("clients", ("bytes_down",), ("epsilon",)),
    Added(
        "summary",
        ("adjusted_rand", "client_accuracy_std"),
        ("epsilon", "epsilon_low", "epsilon_confidence"),
    ),
    Added(
        "",
        ("machines", "staleness", "partition"),
        ("method", "seed", "client", "takes_part", "rounds_joined", "score"),
        table="canaries",
    ),
]
