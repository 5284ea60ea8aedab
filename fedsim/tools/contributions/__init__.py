"""Contributions: what every client of a finished run added to its final score."""

COMMANDS = {"Use a result": {"contributions": "commands"}}
NAMES = {"analysis": ("contributions",)}
REQUIRES = ()
