"""Laws that a kind keeps or breaks, tried on small cases: `fedsim.conform` and its command."""

MODES = {"conform": ("commands", "check FILE.py", "check --laws")}
NAMES = {"conformity": ("conform",)}
REQUIRES = ()
