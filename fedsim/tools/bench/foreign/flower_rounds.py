"""Rounds of federated averaging by Flower: PyTorch clients in Ray actors of one core each.

`fedsim doctor --bench SCENARIO --peers` writes what to train on, and runs this file. It needs
flwr[simulation] and torch.

    python flower_rounds.py ROUNDS.npz ray
"""

import json
import logging
import sys
import time

import numpy as np
import torch
import torch_rounds
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

PATH = sys.argv[1]
client_app = ClientApp()
server_app = ServerApp()
seconds: list[float] = []
scores: list[float] = []


def trainer() -> torch_rounds.Trainer:
    """The samples and the network, loaded once per process."""
    if not hasattr(torch_rounds, "_trainer"):
        torch_rounds._begin(PATH)
    return torch_rounds._trainer


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Node k trains as client k of the round's cohort."""
    client = int(context.node_config["partition-id"])
    round_index = int(message.content["config"]["server-round"]) - 1
    start = message.content["arrays"].to_torch_state_dict()
    model = trainer().train(round_index, client, start)
    weight = float(trainer().rounds[round_index][2][client])
    content = RecordDict(
        {"arrays": ArrayRecord(model), "metrics": MetricRecord({"num-examples": weight})}
    )
    return Message(content=content, reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    local = trainer()
    torch.set_num_threads(torch.multiprocessing.cpu_count())
    begin = time.perf_counter()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        nonlocal begin
        local.net.load_state_dict(arrays.to_torch_state_dict())
        score = torch_rounds.accuracy(local.net, local.x_test, local.y_test)
        now = time.perf_counter()
        if server_round > 0:
            seconds.append(now - begin)
            scores.append(score)
        begin = time.perf_counter()
        return MetricRecord({"accuracy": score})

    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0)
    start = {name: value.clone() for name, value in local.net.state_dict().items()}
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(start),
        train_config=ConfigRecord(),
        num_rounds=len(local.rounds),
        evaluate_fn=evaluate,
    )


if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.ERROR)
    cohort = np.load(PATH)["index"].shape[1]
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=cohort, backend_config=resources)
    print(json.dumps({"seconds": seconds, "accuracy": scores[-1]}))
