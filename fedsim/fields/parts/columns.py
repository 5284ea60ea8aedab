"""The columns of parts of the model; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    Added("clients", ("group", "classes"), ("width", "rank")),
]
