"""Whether the rows of a batch see each other in a module.

Then rows that only fill a batch up would change the results of the others. It is tried in torch:
another first row may change nothing but its own outputs.
"""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.export.graph_signature import InputKind, OutputKind

from fedsim.fields.torch.export import Outputs, default_type, graph_of, line_of, quiet, torch_type
from fedsim.fields.torch.operators import known

NOISE = 0.1  # on parameters: what starts at zero would hide what it is multiplied with


def mixes_rows(
    module: nn.Module, trained: Any, shape: tuple[int, ...], dtype: Any, floats: Any
) -> bool:
    """Return whether rows see each other in training mode, other than in batch norm.

    Batch norm over the rows of the batch knows which of them count.

    Args:
      module: as its user made it; it stays as it is.
      trained: its graph in training mode, for batches of the shape.
      shape: of a batch, as the module takes it.
      dtype: of the batch.
      floats: the type of the module's floats.

    Raises:
      ValueError: for a module whose rows see each other in evaluation mode.
    """
    one, other = _batches(shape, dtype)
    with quiet(), default_type(torch_type(floats)):
        if _mix_in_evaluation(module, one, other):
            evaluated = graph_of(module, shape, dtype, floats, train=False)
            text = "mixes the rows of a batch: predictions for a sample would depend on the others"
            raise ValueError(f"model: {_mixing(evaluated, one, other)} {text}")
        operator = _mixing(trained, one, other)
    if operator:
        text = "mixes the rows of a batch in training: rows of short batches would count"
        warnings.warn(f"model: {operator} {text}", stacklevel=2)
    return bool(operator)


def _mix_in_evaluation(module: nn.Module, one: torch.Tensor, other: torch.Tensor) -> bool:
    module = copy.deepcopy(module).to(torch.get_default_dtype()).eval()
    for parameter in module.parameters():
        parameter.data = _noisy(parameter.data)
    results = [_reproducibly(Outputs(module), x) for x in (one, other)]
    return bool(_differences(*results)[1:].any())


def _mixing(graph: Any, one: torch.Tensor, other: torch.Tensor) -> str:
    """The operator of a graph by which rows see each other, and its line; empty: none does.

    It is the first one whose values differ in more than their share.
    """
    start = _inputs(graph)
    runs = [_Run(graph, start, x) for x in (one, other)]
    if not _leave_the_first_row(graph, *runs):
        return ""
    for node in graph.graph.nodes:
        values = [run.env.get(node) for run in runs]
        if node.op == "call_function" and _share(*values) > 1 / len(one):
            return f"{node.target}{line_of(node)}"
    return "the module"  # rows are exchanged


class _Run(torch.fx.Interpreter):
    """A run of a graph, with all its values as `env`; batch norm leaves out the first row."""

    def __init__(self, graph: Any, start: dict[str, torch.Tensor], x: torch.Tensor):
        super().__init__(graph.graph_module, garbage_collect_values=False)
        self.rows = len(x)
        specs = graph.graph_signature.input_specs
        inputs = [start.get(spec.arg.name, x) for spec in specs]
        self.outputs = _reproducibly(self.run, *inputs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        operator = known(target)
        if operator is None or not operator.masked or len(args[0]) != self.rows:
            return super().call_function(target, args, kwargs)
        x, *options = args
        without_first = torch.cat([x[1:2], x[1:]])
        values, *statistics = super().call_function(target, (without_first, *options), kwargs)
        return torch.cat([x[:1], values[1:]]), *statistics


def _inputs(graph: Any) -> dict[str, torch.Tensor]:
    """Inputs of a graph but the batch: parameters, buffers and constants by name."""
    values = {**graph.state_dict, **graph.constants}
    inputs = {}
    for spec in graph.graph_signature.input_specs:
        if spec.kind != InputKind.USER_INPUT:
            value = values[spec.target].detach()
            inputs[spec.arg.name] = _noisy(value) if spec.kind == InputKind.PARAMETER else value
    return inputs


def _batches(shape: tuple[int, ...], dtype: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two batches that differ in the first row; of tokens, that are 0 and 1."""
    of_batch = torch_type(dtype)
    if not of_batch.is_floating_point:
        one = torch.zeros(shape, dtype=of_batch)
        first = torch.ones(shape[1:], dtype=of_batch)
    else:
        drawn = torch.Generator().manual_seed(0)
        one = torch.rand(shape, dtype=of_batch, generator=drawn)
        first = torch.rand(shape[1:], dtype=of_batch, generator=drawn)
    other = one.clone()
    other[0] = first
    return one, other


def _noisy(value: torch.Tensor) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    drawn = torch.Generator().manual_seed(1)
    return value + NOISE * torch.randn(value.shape, dtype=value.dtype, generator=drawn)


@torch.no_grad()
def _reproducibly(function: Any, *arguments: Any) -> Any:
    """Call a function, whose dropout is the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return function(*arguments)


def _leave_the_first_row(graph: Any, one: _Run, other: _Run) -> bool:
    """Whether other outputs than those of the first row differ, or what training changes."""
    kinds = [spec.kind for spec in graph.graph_signature.output_specs]
    for kind, a, b in zip(kinds, one.outputs, other.outputs, strict=True):
        differences = _differences(a, b)
        if kind == OutputKind.USER_OUTPUT:
            differences = differences[1:]
        if differences.any():
            return True
    return False


def _share(one: Any, other: Any) -> float:
    """The share of a value's numbers that differ; of several values, the largest."""
    pairs = zip(one, other, strict=True) if isinstance(one, list | tuple) else [(one, other)]
    tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and a.numel()]
    return max((float(_differences(a, b).double().mean()) for a, b in tensors), default=0.0)


def _differences(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two tensors differ; NaN is NaN."""
    return (a != b) & ((a == a) | (b == b))
