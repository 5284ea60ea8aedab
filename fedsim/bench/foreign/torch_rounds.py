"""Rounds of federated averaging in PyTorch, as written by hand: in a loop, and by two processes.

`fedsim bench SCENARIO --peers` writes what to train on, and runs this file. It needs only torch.

    python torch_rounds.py ROUNDS.npz loop|processes
"""

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

PROCESSES = 2


class Net(nn.Module):
    """Logistic regression, MLP or CNN of the benchmarks, chosen by the names of its parameters."""

    def __init__(self, start: dict[str, np.ndarray]):
        super().__init__()
        self.leaves = nn.ParameterDict(
            {name: nn.Parameter(torch.tensor(value)) for name, value in start.items()}
        )

    def layer(self, name: str, x):
        return x @ self.leaves[f"{name}/W"] + self.leaves[f"{name}/b"]

    def convolution(self, name: str, x):
        W = self.leaves[f"{name}/W"].permute(3, 2, 0, 1)
        return F.relu(F.max_pool2d(F.conv2d(x, W, self.leaves[f"{name}/b"], padding="same"), 2))

    def forward(self, x):
        if "W" in self.leaves:
            return x @ self.leaves["W"] + self.leaves["b"]
        if "conv0/W" in self.leaves:
            x = self.convolution("conv1", self.convolution("conv0", x.permute(0, 3, 1, 2)))
            return self.layer(
                "last", F.relu(self.layer("hidden", x.permute(0, 2, 3, 1).flatten(1)))
            )
        names = sorted({name.split("/")[0] for name in self.leaves})
        for name in names[:-1]:
            x = F.relu(self.layer(name, x))
        return self.layer(names[-1], x)


def update(net: Net, start: dict, batches: np.ndarray, valid: np.ndarray, x, y, lr: float) -> dict:
    """One client's local steps -> its parameters."""
    net.load_state_dict(start)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for rows, count in zip(batches, valid, strict=True):
        if count:
            index = torch.from_numpy(rows[:count].astype(np.int64))
            optimizer.zero_grad()
            F.cross_entropy(net(x[index]), y[index]).backward()
            optimizer.step()
    return {name: value.clone() for name, value in net.state_dict().items()}


def mean(models: list[dict], weights: np.ndarray) -> dict:
    shares = weights / weights.sum()
    return {
        name: sum(float(w) * m[name] for w, m in zip(shares, models, strict=True))
        for name in models[0]
    }


@torch.no_grad()
def accuracy(net: Net, x, y) -> float:
    return float((torch.cat([net(part).argmax(1) for part in x.split(500)]) == y).float().mean())


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
        self.y, self.y_test = (torch.tensor(arrays[name]).long() for name in ("y", "y_test"))
        if "params/conv0/W" not in arrays:
            self.x, self.x_test = self.x.flatten(1), self.x_test.flatten(1)
        start = {
            name.removeprefix("params/"): value
            for name, value in arrays.items()
            if name.startswith("params/")
        }
        self.net = Net(start)

    def train(self, r: int, k: int, start: dict) -> dict:
        index, valid, _ = self.rounds[r]
        return update(self.net, start, index[k], valid[k], self.x, self.y, self.lr)


_trainer: Trainer


def _begin(path: str) -> None:
    global _trainer
    torch.set_num_threads(1)
    _trainer = Trainer(path)


def _share(job: tuple[int, list[int], dict]) -> list[dict]:
    r, clients, start = job
    return [_trainer.train(r, k, start) for k in clients]


def play(path: str, how: str) -> tuple[list[float], float]:
    """-> (seconds of every round, the last accuracy)."""
    trainer = Trainer(path)
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
    seconds, score = play(*sys.argv[1:3])
    print(json.dumps({"seconds": seconds, "accuracy": score}))
