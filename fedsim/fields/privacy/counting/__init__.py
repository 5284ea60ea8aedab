"""Differential privacy: ε of what clients release, and the noise that an ε asks for.

It knows the section `privacy` of a scenario and how a cohort draws, and nothing of how a round
runs. It needs dp-accounting, and jax-privacy for the noise `blt`: `pip install
'fedsim-jax[privacy]'`.
"""
