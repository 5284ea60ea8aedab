"""Rounds measured on this machine, beside plain JAX, NumPy and other libraries."""

MODES = {"bench": ("commands", "doctor --bench")}
TABLES = "columns"
REQUIRES = ()
