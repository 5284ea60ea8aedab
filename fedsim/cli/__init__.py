"""The command line: a thin client of the library. JAX is imported when a command needs it, not before."""

from fedsim.cli.entry import cli as cli
from fedsim.cli.entry import command as command
from fedsim.cli.entry import main as main
