"""Unlearning: models of a finished run without some of its clients, and what they forgot."""

MODES = {"unlearn": ("commands", "fork --unlearn")}
RESUMABLE = ("unlearn",)
NAMES = {"unlearning": ("unlearn",)}
TABLES = "columns"
REQUIRES = ()
