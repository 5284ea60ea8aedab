"""The compiled half of a scenario."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedsim.engine.mesh import Mesh
from fedsim.engine.observer import Observer
from fedsim.engine.own_work import OwnWork
from fedsim.engine.pack import Capacity, Packer, Width, longest_first
from fedsim.engine.scoring.rows import Evaluate, Measures
from fedsim.engine.server import Server
from fedsim.engine.server_records import ServerState
from fedsim.types import Shared, Task


class Program(NamedTuple):
    """The compiled half of a scenario: pure functions, and the shapes they were made for."""

    mesh: Mesh
    server: Server
    evaluate: Evaluate
    evaluation_threads: int  # threads that evaluate side by side
    task: Task
    width: Width
    capacity: Capacity
    dtype: np.dtype
    pack: Packer = longest_first
    observer: Observer | None = None  # what measures the updates, where something does
    probe_mesh: Mesh | None = None  # lanes of the pass at the global model, where a round has one
    own_work: OwnWork | None = None  # what the server does by itself, where the rule asks for it
    trains_alone: bool = False  # whether no other run may train side by side
    beside: Mapping[str, Callable[[ServerState], Shared]] = {}  # what is scored besides, by name
    measures: Measures | None = None  # what is measured of outputs, besides means over samples
    tuning_mesh: Mesh | None = None  # lanes of the training before a score, where there is one
