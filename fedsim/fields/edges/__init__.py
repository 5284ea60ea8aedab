"""Servers between the clients and a cloud."""

ORDER = 40
KINDS = ("hierarchical",)
FIELD = "field"
REQUIRES = ("clusters", "graphs")
