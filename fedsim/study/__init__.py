"""Studies: what is asked of many runs, and how fast they are."""
