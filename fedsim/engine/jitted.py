"""Methods as programs: compiled by `jax.jit`, once for each object, and typed as they are written."""

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import jax

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Jitted(Protocol[P, R_co]):
    """A compiled function with the arguments of the one it was made of."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run it; results may still be on their way."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """The program for arguments of these shapes, before it is compiled."""
        ...


class jitted(Generic[S, P, R]):
    """Decorator: a method that is compiled once for each object that it is called on.

    Args:
      method: pure in its arguments; what it reads of the object is constant.
      donate: numbers of the arguments, from 0, whose buffers may be used for the result.
      static: numbers of those that are part of the program.
    """

    def __init__(
        self,
        method: Callable[Concatenate[S, P], R],
        donate: tuple[int, ...] = (),
        static: tuple[int, ...] = (),
    ):
        self.method, self.donate, self.static = method, donate, static
        self.__doc__ = method.__doc__

    def __get__(self, instance: S, owner: type[S]) -> Jitted[P, R]:
        if instance is None:  # asked of the class
            return self.method  # type: ignore[return-value]
        bound = self.method.__get__(instance, owner)  # type: ignore[attr-defined]
        program: Any = jax.jit(bound, donate_argnums=self.donate, static_argnums=self.static)
        instance.__dict__[self.method.__name__] = program  # found from now on without asking here
        return program


def jitted_with(
    donate: tuple[int, ...] = (), static: tuple[int, ...] = ()
) -> Callable[[Callable[Concatenate[S, P], R]], jitted[S, P, R]]:
    """`jitted`, with arguments whose buffers are used for the result, or that are part of the program."""
    return lambda method: jitted(method, donate, static)
