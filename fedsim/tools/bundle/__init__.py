"""Bundles: runs as a zip with everything that repeats them, and their repetition elsewhere."""

MODES = {
    "export --format zip": "commands:bundle_command",
    "verify --against RUN": "against:against_command",
}
FORMER = {"bundle": "export --format zip"}
NAMES = {"packing": ("bundle",)}
REQUIRES = ()
