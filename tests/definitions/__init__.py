"""What every rule, stage, attack and codec is by its paper, on a few numbers worked out by hand.

A case has a link as it stands in a scenario, and the numbers that must come out of it. None of them
is computed by fedsim: the comment beside a case says where they come from. The tables are
`rules.CASES`, `stages.STAGES`, `stages.ATTACKS` and `codecs.CASES`.
"""
