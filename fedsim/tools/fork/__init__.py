"""Forks: runs that go on from a round of another run, as another scenario."""

COMMANDS = {"Use a result": {"fork": "commands"}}
RESUMABLE = ("fork",)
NAMES = {"forking": ("fork",)}
PAGE = "page"
REQUIRES = ()
