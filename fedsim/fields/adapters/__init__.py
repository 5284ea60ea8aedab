"""Small trained leaves next to the frozen weights of a model, and rules about them."""

ORDER = 60
KINDS = (
    "bitfit",
    "bottleneck",
    "dora",
    "dual_lora",
    "ia3",
    "lora",
    "prompt",
    "vera",
    "lora_mean",
)
KEYS = "keys"
FIELD = "field"
REQUIRES = ()
