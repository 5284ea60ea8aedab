"""Contributions: what every client of a finished run added to its final score."""

MODES = {"report --contributions": "commands:contributions_command"}
FORMER = {"contributions": "report --contributions"}
NAMES = {"analysis": ("contributions",)}
REQUIRES = ()
