"""From a module to a program: `torch.export`, to core ATen, to operators in JAX."""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import contextlib
import copy
import io
import logging
import operator as python_operator
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from torch import nn
from torch.export.graph_signature import InputKind, OutputKind

from fedsim.errors import shortened
from fedsim.fields.torch.operators import known
from fedsim.fields.torch.operators.registry import Operator
from fedsim.fields.torch.program import Name, Program, Step

FEDSIM = Path(__file__).parents[2]
TORCH = Path(torch.__file__).parent
# Operators that are not taken apart.
WHOLE = (
    "gru.input",
    "linear.default",
    "lstm.input",
    "rnn_relu.input",
    "rnn_tanh.input",
    "scaled_dot_product_attention.default",
)
STORAGE = ("device", "layout", "memory_format", "pin_memory", "requires_grad", "out_dtype")
CHECKS = ("aten._assert", "aten.sym_constrain_range")
INNER = "inner"
BRANCH = "data-dependent expression"  # what torch says of a branch by values
MAX_CHARACTERS = 120  # of what it says
CELL = "ipykernel_"  # begins the name of a folder, in which the cells of a notebook seem to be
FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
GETITEM = Operator(lambda values, index: values[index])


class Outputs(nn.Module):
    """A module that returns one tensor: the logits of another one, or the first of its outputs."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = self.inner(x)
        outputs = getattr(outputs, "logits", outputs)
        return outputs[0] if isinstance(outputs, list | tuple) else outputs


def exported(
    module: nn.Module, shape: tuple[int, ...], dtype: Any, floats: Any, train: bool
) -> Program:
    """Return a module's forward pass for batches of a shape.

    Args:
      module: as its user made it; it stays as it is.
      shape: of a batch, as the module takes it.
      dtype: of the batch.
      floats: the type of the module's floats.
      train: whether the module is in training mode.

    Raises:
      ValueError: for what cannot be exported, with the line of the user's file.
    """
    return program_of(graph_of(module, shape, dtype, floats, train))


def graph_of(
    module: nn.Module, shape: tuple[int, ...], dtype: Any, floats: Any, train: bool
) -> Any:
    """Return what `exported` makes a program of: an `ExportedProgram` of torch.

    Raises:
      ValueError: for what cannot be exported, with the line of the user's file.
    """
    of_module = torch_type(floats)
    outputs = Outputs(copy.deepcopy(module).train(train).to(of_module))
    batch = torch.zeros(shape, dtype=torch_type(dtype))
    with quiet(), default_type(of_module):
        try:
            whole = torch.export.export(outputs, (batch,), strict=False)
            decompositions = torch.export.default_decompositions()
            for target in list(decompositions):
                if str(target).removeprefix("aten.") in WHOLE:
                    del decompositions[target]
            return whole.run_decompositions(decompositions)
        except Exception as error:
            raise ValueError(_failure(error)) from None


def torch_type(dtype: Any) -> torch.dtype:
    """Return torch's type; integers are those of 64 bits, which index in torch."""
    name = np.dtype(dtype).name
    return torch.int64 if name.startswith(("int", "uint")) else getattr(torch, name)


def jax_type(dtype: torch.dtype) -> Any:
    """Return JAX's type, in the widths that are switched on."""
    return jax.dtypes.canonicalize_dtype(str(dtype).removeprefix("torch."))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out warnings and logs of torch about itself, and graphs that it prints."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextlib.contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Let tensors that a module makes have the type of the run."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def program_of(whole: Any) -> Program:
    """Return a graph of torch in operators that JAX computes.

    Raises:
      ValueError: for an operator that is not in the table, with the line of the user's file.
    """
    params, buffers, constants = {}, {}, {}
    x = ""
    for spec in whole.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind == InputKind.PARAMETER:
            params[name] = _own_name(spec.target)
        elif spec.kind == InputKind.BUFFER:
            buffers[name] = _own_name(spec.target)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            constants[name] = numpy_of(whole.constants[spec.target])
        elif spec.kind == InputKind.USER_INPUT:
            x = name

    outputs = None
    moved = {}
    for spec in whole.graph_signature.output_specs:
        if spec.kind == OutputKind.BUFFER_MUTATION:
            moved[_own_name(spec.target)] = Name(spec.arg.name)
        elif spec.kind == OutputKind.USER_OUTPUT:
            outputs = Name(spec.arg.name)
    assert outputs is not None  # a module returns something

    nodes = [node for node in whole.graph.nodes if node.op == "call_function"]
    nodes = [node for node in nodes if not str(node.target).startswith(CHECKS)]
    steps = tuple(_step(node) for node in nodes)
    return Program(params, buffers, constants, x, steps, outputs, moved)


def _own_name(target: str) -> str:
    """The name of a tensor in the module itself."""
    return target.removeprefix(f"{INNER}.")


def _step(node: Any) -> Step:
    """One node of a graph.

    Raises:
      ValueError: for an operator that is not in the table.
    """
    is_item = node.target is python_operator.getitem
    operator = GETITEM if is_item else known(node.target)
    if operator is None:
        raise ValueError(f"model: no operator {node.target} in fedsim.fields.torch{line_of(node)}")
    options = {name: value for name, value in node.kwargs.items() if name not in STORAGE}
    value = node.meta.get("val")
    return Step(
        name=node.name,
        operator=operator,
        arguments=tuple(_argument(each) for each in node.args),
        options={name: _argument(each) for name, each in options.items()},
        dtype=jax_type(value.dtype) if isinstance(value, torch.Tensor) else None,
    )


def _argument(value: Any) -> Any:
    """An argument of a node, without torch."""
    if isinstance(value, torch.fx.Node):
        return Name(value.name)
    if isinstance(value, torch.dtype):
        return jax_type(value)
    if isinstance(value, list | tuple):
        return [_argument(each) for each in value]
    return value


def numpy_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's values; those of narrow floats, which NumPy lacks, in float32."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.numpy().copy()


def line_of(node: Any) -> str:
    """Return where in the user's file a node comes from, in brackets; empty: unknown."""
    frames = [match.groupdict() for match in FRAME.finditer(node.meta.get("stack_trace") or "")]
    return _place([(frame["file"], int(frame["line"])) for frame in frames])


def _failure(error: Exception) -> str:
    """Why a module could not be exported, with the line of the user's file."""
    frames = [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if BRANCH in text:
        text = "forward branches by the values of a tensor"
    return f"model: torch.export: {shortened(text, MAX_CHARACTERS)}{_place(frames)}"


def _place(frames: list[tuple[str, int]]) -> str:
    """The last frame that is neither torch's nor fedsim's, in brackets."""
    for file, line in reversed(frames):
        path = Path(file)
        if path.parent.name.startswith(CELL):
            return f" (line {line} of a cell)"
        if not (path.is_relative_to(TORCH) or path.is_relative_to(FEDSIM)) and path.is_file():
            return f" ({path.name}, line {line})"
    return ""
