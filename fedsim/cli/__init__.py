"""The command line: a thin client of the library. It imports JAX only when a command needs it."""

from fedsim.cli.entry import cli as cli
from fedsim.cli.entry import command as command
from fedsim.cli.entry import main as main
