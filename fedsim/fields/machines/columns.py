"""The columns of machines; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("rounds", ("skipped",), ("clients_late", "clients_left", "steps_wasted", "bytes_wasted")),
    Added("rounds", ("virtual_seconds",), ("joules",)),
    Added("clients", ("bytes_down",), ("joules",)),
    Added("clients", ("classes",), ("rounds_offered",)),
    Added("clients", ("rounds_joined",), ("rounds_late", "rounds_left")),
    Added(
        "",
        ("partition",),
        (
            "method",
            "seed",
            "place",
            "client",
            "begins",
            "trains",
            "sends",
            "ends",
            "closes",
            "outcome",
        ),
        table="machines",
    ),
]
