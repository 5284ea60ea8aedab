"""The columns of graphs; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

# What is said of a score of all nodes, behind its name.
OF_NODES = ("mean", "worst", "std")

COLUMNS = [
    Added(
        "rounds",
        ("personal_mae_std",),
        (
            "consensus",
            *(f"node_{score}_{of}" for score in ("loss", "accuracy", "mae") for of in OF_NODES),
        ),
    ),
]
