"""Unlearning: models of a finished run without some of its clients, and what they forgot."""

COMMANDS = {"Use a result": {"unlearn": "commands"}}
RESUMABLE = ("unlearn",)
NAMES = {"unlearning": ("unlearn",)}
TABLES = "columns"
REQUIRES = ()
