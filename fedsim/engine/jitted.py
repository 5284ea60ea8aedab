"""Methods compiled by `jax.jit`, once for each object, with the types of the method."""

import copy
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import jax

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Jitted(Protocol[P, R_co]):
    """A compiled function that takes the arguments of the function it was made from."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run it; the device may still be computing the results."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Return the program for arguments of these shapes, before it is compiled."""
        ...


class jitted(Generic[S, P, R]):
    """Decorator that compiles a method once for each object that it is called on.

    Args:
      method: pure in its arguments; what it reads from the object is constant.
      donate: positions of the arguments, from 0, whose buffers may be used for the result.
      static: positions of the arguments that are part of the program.
    """

    def __init__(
        self,
        method: Callable[Concatenate[S, P], R],
        donate: tuple[int, ...] = (),
        static: tuple[int, ...] = (),
    ):
        self.method = method
        self.donate = donate
        self.static = static
        self.__doc__ = method.__doc__

    def __get__(self, instance: S, owner: type[S]) -> Jitted[P, R]:
        if instance is None:  # read from the class
            return self.method  # type: ignore[return-value]
        bound = self.method.__get__(instance, owner)  # type: ignore[attr-defined]
        program: Any = jax.jit(bound, donate_argnums=self.donate, static_argnums=self.static)

        # From now on Python finds the program on the object and does not call this method again.
        instance.__dict__[self.method.__name__] = program
        return program


def without_programs(instance: S) -> S:
    """Return a copy of an object that has none of the programs compiled for its methods."""
    other = copy.copy(instance)
    for owner in type(instance).__mro__:
        for name, attribute in vars(owner).items():
            if isinstance(attribute, jitted):
                vars(other).pop(name, None)
    return other


def jitted_with(
    donate: tuple[int, ...] = (), static: tuple[int, ...] = ()
) -> Callable[[Callable[Concatenate[S, P], R]], jitted[S, P, R]]:
    """Return `jitted` for a method with donated or static arguments."""
    return lambda method: jitted(method, donate, static)
