"""Seconds spent compiling, as JAX reports them."""

import functools

import jax


@functools.cache
def _spent() -> list[float]:
    """The running sum, kept by a listener that is registered once in a process."""
    spent = [0.0]

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):  # tracing, lowering, and XLA itself
            spent[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    return spent


def compile_seconds() -> float:
    """Seconds this process has spent compiling since the first call (0 then)."""
    return _spent()[0]
