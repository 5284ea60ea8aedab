"""Servers between the clients and a cloud."""

ORDER = 40
KINDS = ("hierarchical",)
FIELD = "field"
COLUMNS = "columns"
REQUIRES = ("clusters", "graphs")
