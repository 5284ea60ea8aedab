"""Laws that a kind keeps or breaks, tried on small cases: `fedsim.conform` and its command."""

COMMANDS = {"Write a scenario": {"conform": "commands"}}
NAMES = {"conformity": ("conform",)}
REQUIRES = ()
