"""Laws that a kind keeps or breaks, tried on small cases: `fedsim.conform` and its command."""

MODES = {
    "check --laws": "commands:conform_command",
    "check FILE.py": "commands:conform_command",
}
FORMER = {"conform": "check --laws"}
NAMES = {"conformity": ("conform",)}
REQUIRES = ()
