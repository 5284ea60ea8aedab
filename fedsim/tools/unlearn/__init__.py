"""Unlearning: models of a finished run without some of its clients, and what they forgot."""

MODES = {"fork --unlearn": "commands:unlearn_command"}
FORMER = {"unlearn": "fork --unlearn"}
RESUMABLE = ("fork --unlearn",)
NAMES = {"unlearning": ("unlearn",)}
TABLES = "columns"
REQUIRES = ()
