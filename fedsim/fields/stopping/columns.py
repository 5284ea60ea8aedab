"""The columns of runs that end early; `files.yaml` says what they mean."""

from fedsim.disk.tables import Added

COLUMNS = [
    # of a run: its early end, and which model it results in
    Added("summary", ("diverged",), ("stopped", "restored")),
    # of a method, against the baseline: what its runs spent until they ended
    Added(
        "compare",
        ("p_wilcoxon",),
        tuple(
            f"stopped_{name}{end}"
            for name in ("rounds", "bytes", "virtual_seconds")
            for end in ("", "_difference", "_ci_low", "_ci_high", "_p_adjusted")
        ),
    ),
]
