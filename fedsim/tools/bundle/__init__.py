"""Bundles: runs as a zip with everything that repeats them, and their repetition elsewhere."""

COMMANDS = {"Use a result": {"bundle": "commands"}}
NAMES = {"packing": ("bundle",)}
EXTENDS = {"check": "against"}
REQUIRES = ()
