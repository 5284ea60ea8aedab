"""The columns of attacks on data; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("rounds", ("node_mae_std", "personal_mae_std"), ("attack_success",)),
]
