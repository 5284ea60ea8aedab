"""How fast rounds and rules are, and against what."""
