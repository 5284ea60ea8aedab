"""The columns of runs that end early; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [Added("summary", ("diverged",), ("stopped", "restored"))]
