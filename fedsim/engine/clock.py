"""Seconds spent compiling, as JAX reports them."""

import jax

_COMPILING = "/jax/core/compile/"  # tracing, lowering and backend compilation
_spent = [0.0]
_programs = [0]
_listening = False


def _listen(event: str, duration: float, **_) -> None:
    if event.startswith(_COMPILING):
        _spent[0] += duration
        _programs[0] += event.endswith("backend_compile_duration")


def compile_seconds() -> float:
    """Seconds this process has spent compiling since the first call (0 then)."""
    global _listening
    if not _listening:
        jax.monitoring.register_event_duration_secs_listener(_listen)
        _listening = True
    return _spent[0]
