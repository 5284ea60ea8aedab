"""Contributions: what every client of a finished run added to its final score."""

MODES = {"contributions": ("commands", "report --contributions")}
NAMES = {"analysis": ("contributions",)}
REQUIRES = ()
