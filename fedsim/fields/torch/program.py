"""A module's forward pass as a list of steps, and its evaluation in JAX."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.fields.torch.operators.registry import Operator


class Name(NamedTuple):
    """The value of an input or of an earlier step."""

    of: str


class Step(NamedTuple):
    """One operator.

    Attributes:
      name: of its value.
      operator: what computes it.
      arguments: numbers, `Name`s, and lists of them.
      options: further ones, by name.
      dtype: of its value; None: whatever it has.
    """

    name: str
    operator: Operator
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    dtype: Any


class Program(NamedTuple):
    """A forward pass for batches of one shape.

    Attributes:
      params: name of an input -> the parameter, as `state_dict` names it.
      buffers: name of an input -> the buffer.
      constants: name of an input -> its values.
      x: name of the input that is the batch.
      steps: in order.
      outputs: the outputs of the module.
      moved: buffer -> its new value.
    """

    params: Mapping[str, str]
    buffers: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    x: str
    steps: tuple[Step, ...]
    outputs: Name
    moved: Mapping[str, Name]


def evaluated(
    program: Program, params: Mapping, buffers: Mapping, x: Any, mask: Any, key: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the outputs of a program, and the buffers that it changes.

    Args:
      program: for batches of this shape.
      params: values by the names of `state_dict`.
      buffers: the same.
      x: the batch, as the module takes it.
      mask: rows that count `[B]`; None: all.
      key: of random numbers; None: always the same ones.
    """
    values = {program.x: x}
    values |= {name: params[parameter] for name, parameter in program.params.items()}
    values |= {name: buffers[buffer] for name, buffer in program.buffers.items()}
    values |= {name: jnp.asarray(constant) for name, constant in program.constants.items()}
    key = jax.random.key(0) if key is None else key

    for number, step in enumerate(program.steps):
        arguments = _filled(step.arguments, values)
        options = {name: _filled(value, values) for name, value in step.options.items()}
        if step.operator.keyed:
            options["key"] = jax.random.fold_in(key, number)
        if step.operator.masked:
            of_rows = mask is not None and len(mask) == len(arguments[0])
            options["mask"] = mask if of_rows else None
        value = step.operator.call(*arguments, **options)
        values[step.name] = value if step.dtype is None else jnp.asarray(value, step.dtype)

    moved = {buffer: values[name.of] for buffer, name in program.moved.items()}
    return values[program.outputs.of], moved


def _filled(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument with values in place of names."""
    if isinstance(argument, Name):
        return values[argument.of]
    if isinstance(argument, list | tuple):
        return [_filled(each, values) for each in argument]
    return argument
