"""Numbers in the README and `docs/compared.md` are those of the registry and of `reports`."""

import re

import pandas as pd
from conftest import if_all_installed, own_kinds_of

from fedsim.scenario.guide import guide_to_rules
from fedsim.scenario.methods import BASELINES

NAMED = {  # words of the README -> families, summed
    "methods": ["method"],
    "aggregation rules": ["rule"],
    "attacks": ["attack", "data_attack"],
    "codecs": ["codec"],
    "partitions": ["partition"],
    "ways to choose a cohort": ["cohort"],
    "kinds of data": ["dataset"],
    "models": ["model"],
    "losses": ["loss"],
    "metrics": ["metric"],
}


def counts() -> dict[str, int]:
    shipped = lambda family: len(own_kinds_of(family))
    result = {words: sum(map(shipped, families)) for words, families in NAMED.items()}
    result["baselines"] = len(BASELINES)  # which are not federated methods
    result["methods"] -= len(BASELINES)
    facts = guide_to_rules()["entries"].values()
    result["of them robust"] = sum("resists" in f and "resists nothing" not in f for f in facts)
    return result


@if_all_installed
def test_the_readme_counts_what_the_catalogue_has(root):
    words = " ".join((root / "README.md").read_text().split())
    for name, number in counts().items():
        assert f"{number} {name}" in words, (name, number)


@if_all_installed
def test_the_table_of_other_tools_has_the_same_counts(root):
    page = (root / "docs/compared.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", page, re.M))
    expected = counts()
    assert rows["Training methods"] == str(expected["methods"])
    assert rows["Robust rules"] == str(expected["of them robust"])
    assert rows["Attacks on messages and data"] == str(expected["attacks"])
    assert rows["Codecs with counted bits"] == str(expected["codecs"])
    assert rows["Ways to partition a data set"] == str(expected["partitions"])


# Rows of the README's table -> workloads of peers.csv and networks.csv.
WORKLOADS = {
    "W1, a dense network, 10 of 100 equal clients": "w1",
    "W2, a small model, 100 of 1,000 ragged clients": "w2",
    "W3, a convolutional network, 10 of 50 clients": "w3",
    "LeNet": "lenet",
    "a small CNN, as for CIFAR": "cifar_cnn",
    "ResNet-20": "resnet20",
    "ResNet-18": "resnet18",
}


def test_the_readme_s_seconds_are_the_measured_ones(root):
    """Also where others are ahead: a way that was measured is in the table."""
    peers = pd.read_csv(root / "reports/bench/peers.csv")
    networks = pd.read_csv(root / "reports/bench/networks.csv")
    networks = networks.rename(columns={"times_ours": "times_lanes"})
    measured = pd.concat([peers, networks]).set_index(["workload", "how"])
    table = re.search(r"<!-- peers -->\n(.*?)\n\n", (root / "README.md").read_text(), re.S)[1]
    header, _, *rows = [
        [c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()
    ]
    assert [row[0] for row in rows] == list(WORKLOADS)
    for row in rows:
        workload = WORKLOADS[row[0]]
        for way, cell in zip(header[1:], row[1:], strict=True):
            how = re.search(r"`(.+)`", way)[1]
            if (workload, how) not in measured.index:
                assert cell == "", (workload, how)
                continue
            one = measured.loc[workload, how]
            ratio = "" if how == "lanes" else f" ({one['times_lanes']:.3g} ×)"
            assert cell == f"{one['seconds']:.2g}{ratio}", (workload, how)
