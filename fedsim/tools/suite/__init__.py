"""A suite: many comparisons under one protocol, their report, and what others add to them."""

COMMANDS = {"Run": {"suite": "commands"}}
RESUMABLE = ("suite",)
TABLES = "columns"
PAGES = "documentation"
REQUIRES = ()
