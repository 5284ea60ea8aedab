"""Stages: stack -> stack. Attacks on messages, clipping, mixing."""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.stages.sign_flip import sign_flip as sign_flip
from fedsim.stages.gaussian import gaussian as gaussian
from fedsim.stages.nonfinite import nonfinite as nonfinite
from fedsim.stages.clip import clip as clip
from fedsim.stages.adaptive_clip import adaptive_clip as adaptive_clip
from fedsim.stages.mix_neighbours import mix_neighbours as mix_neighbours
from fedsim.stages.optimised import optimised as optimised
from fedsim.stages.aggregate_noise import aggregate_noise as aggregate_noise
from fedsim.stages.adaptive_robust_clip import adaptive_robust_clip as adaptive_robust_clip
from fedsim.stages.bucket import bucket as bucket
