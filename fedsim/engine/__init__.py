"""The engine: training on lanes, the round, and the run.

It knows planned work and a bank of start models, but no method by name.
"""
