"""Rounds measured on this machine, beside plain JAX, NumPy and other libraries."""

MODES = {"doctor --bench": "commands:bench_command"}
FORMER = {"bench": "doctor --bench"}
TABLES = "columns"
REQUIRES = ()
