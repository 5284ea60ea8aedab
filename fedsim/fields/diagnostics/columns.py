"""The columns of diagnostics; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added(
        "rounds",
        ("attack_success", "node_mae_std", "personal_mae_std"),
        ("update_norm", "drift", "cosine", "honest_distance", "kappa_ratio"),
    ),
]
