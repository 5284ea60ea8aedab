"""Modules of torch as models: exported, and computed by JAX."""

ORDER = 94
NETWORKS = {"torch.nn": "model"}
