"""Bundles: runs as a zip with everything that repeats them, and their repetition elsewhere."""

MODES = {"bundle": ("commands", "export --format zip")}
NAMES = {"packing": ("bundle",)}
EXTENDS = {"check": "against"}
REQUIRES = ()
