"""What every rule, stage, attack and codec is by its paper, on a few small numbers worked out by hand.

A case has a link as it stands in a scenario, and what must come out of it, as numbers. Nothing here is computed by fedsim:
the comment beside a case says how its numbers come about. The tables are `rules.CASES`, `stages.CASES` and `codecs.CASES`.
"""
