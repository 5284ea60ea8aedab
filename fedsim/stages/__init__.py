"""Stages: stack -> stack. Attacks on messages, clipping, mixing."""

from fedsim.stages.attacks import gaussian as gaussian
from fedsim.stages.attacks import nonfinite as nonfinite
from fedsim.stages.attacks import sign_flip as sign_flip
from fedsim.stages.clip import clip as clip
from fedsim.stages.mixing import mix_neighbours as mix_neighbours
