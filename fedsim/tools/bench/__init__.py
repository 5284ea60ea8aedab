"""Rounds measured on this machine, beside plain JAX, NumPy and other libraries."""

COMMANDS = {"Know the machine": {"bench": "commands"}}
TABLES = "columns"
REQUIRES = ()
