"""How fast rounds, rules and codecs are, and compared with what."""
