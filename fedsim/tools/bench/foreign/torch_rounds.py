"""Rounds of federated averaging in PyTorch, as written by hand: in a loop, and by two processes.

`fedsim doctor --bench SCENARIO --peers` writes what to train on, and runs this file. It needs
only torch.
The networks are in `torch_networks`.

    python torch_rounds.py ROUNDS.npz loop|processes
"""

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_networks import network

PROCESSES = 2
PARTS = 100  # samples of the test set at once
NO_LABEL = -1


def update(
    net: nn.Module, start: dict, batches: np.ndarray, valid: np.ndarray, x, y, lr: float
) -> dict:
    """One client's local steps -> its parameters."""
    net.load_state_dict(start)
    trained = [leaf for leaf in net.parameters() if leaf.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=lr)
    for rows, count in zip(batches, valid, strict=True):
        if count:
            index = torch.from_numpy(rows[:count].astype(np.int64))
            optimizer.zero_grad()
            outputs = net(x[index]).flatten(0, -2)  # a row for every label
            loss = F.cross_entropy(outputs, y[index].flatten(), ignore_index=NO_LABEL)
            loss.backward()
            optimizer.step()
    return {name: value.clone() for name, value in net.state_dict().items()}


def mean(models: list[dict], weights: np.ndarray) -> dict:
    shares = weights / weights.sum()
    return {
        name: sum(float(w) * m[name] for w, m in zip(shares, models, strict=True))
        for name in models[0]
    }


@torch.inference_mode()
def accuracy(net: nn.Module, x, y) -> float:
    chosen = torch.cat([net(part).argmax(-1) for part in x.split(PARTS)])
    hits = (chosen == y) & (y != NO_LABEL)
    return float(hits.sum() / (y != NO_LABEL).sum())


class Trainer:
    """The data of a workload, and a network to train on it."""

    def __init__(self, path: str):
        arrays = dict(np.load(path))
        self.lr = float(arrays["lr"])
        self.rounds = [
            (arrays["index"][r], arrays["valid"][r], arrays["weight"][r])
            for r in range(len(arrays["index"]))
        ]
        self.x, self.x_test = (torch.tensor(arrays[name]) for name in ("x", "x_test"))
        self.y, self.y_test = (_labels(arrays[name]) for name in ("y", "y_test"))
        start = {
            name.removeprefix("params/"): value
            for name, value in arrays.items()
            if name.startswith("params/")
        }
        self.net = network(json.loads(str(arrays["model"])), start)

    def train(self, r: int, k: int, start: dict) -> dict:
        index, valid, _ = self.rounds[r]
        return update(self.net, start, index[k], valid[k], self.x, self.y, self.lr)


def _labels(y: np.ndarray) -> torch.Tensor:
    """Labels, of which all negative ones mean that there is none."""
    return torch.tensor(y).long().clamp(min=NO_LABEL)


_trainer: Trainer


def _begin(path: str) -> None:
    global _trainer
    torch.set_num_threads(1)
    _trainer = Trainer(path)


def _share(job: tuple[int, list[int], dict]) -> list[dict]:
    r, clients, start = job
    return [_trainer.train(r, k, start) for k in clients]


def play(trainer: Trainer, path: str, how: str) -> tuple[list[float], float]:
    """-> (seconds of every round, the last accuracy); `trainer.net` is the last model."""
    state = {name: value.clone() for name, value in trainer.net.state_dict().items()}
    pool = None
    if how == "processes":
        pool = torch.multiprocessing.get_context("spawn").Pool(PROCESSES, _begin, (path,))
        pool.map(_share, [(0, [], state)] * PROCESSES)

    seconds = []
    score = 0.0
    for r, (_, valid, weight) in enumerate(trainer.rounds):
        begin = time.perf_counter()
        longest_first = list(np.argsort(-(valid > 0).sum(1), kind="stable"))
        if pool is None:
            clients = longest_first
            models = [trainer.train(r, k, state) for k in clients]
        else:
            shares = [longest_first[i::PROCESSES] for i in range(PROCESSES)]
            clients = [k for share in shares for k in share]
            parts = pool.map(_share, [(r, share, state) for share in shares], chunksize=1)
            models = [model for part in parts for model in part]
        state = mean(models, weight[clients])
        trainer.net.load_state_dict(state)
        score = accuracy(trainer.net, trainer.x_test, trainer.y_test)
        seconds.append(time.perf_counter() - begin)
    if pool is not None:
        pool.terminate()
    return seconds, score


if __name__ == "__main__":
    path, how = sys.argv[1:3]
    seconds, score = play(Trainer(path), path, how)
    print(json.dumps({"seconds": seconds, "accuracy": score}))
