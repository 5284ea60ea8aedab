"""Methods whose clients have models of their own."""

ORDER = 55
KINDS = (
    "fedper",
    "fine_tune",
    "ditto",
    "pfedme",
    "per_fedavg",
    "apfl",
    "fedrep",
    "fedbabu",
    "lg_fedavg",
    "fedbn",
    "mr_mtl",
    "fedrod",
    "fedala",
    "fedamp",
    "fedem",
    "fedfomo",
    "fedproto",
    "fedpac",
    "fedas",
    "dbe",
    "knn_per",
    "pfedhn",
    "superfed",
)
METHODS = "methods"
