"""The engine: jobs on lanes, the round, the run. It knows jobs and a bank of start models, and no method by name."""
