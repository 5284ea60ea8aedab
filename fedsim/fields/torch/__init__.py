"""Modules of torch as models: exported, and computed by JAX."""

ORDER = 94
KINDS = ("kind",)
NETWORKS = {"torch.nn": "model"}
DATA_SETS = {"torch.utils.data": "data", "datasets": "hugging_face"}
RESULT = "weights"
EXPORTS = {"torch": "weights"}
WEIGHTS = {".pt": "weights", ".pth": "weights"}
MODES = {"new --from-torch NET": "start:from_torch_command"}
