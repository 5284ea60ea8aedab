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
from fedsim.stages.little_is_enough import little_is_enough as little_is_enough
from fedsim.stages.inner_product import inner_product as inner_product
from fedsim.stages.constant import constant as constant
from fedsim.stages.constant import zero as zero
from fedsim.stages.min_max import min_max as min_max
from fedsim.stages.min_max import min_sum as min_sum
from fedsim.stages.model_replacement import model_replacement as model_replacement
from fedsim.stages.model_replacement import constrain_and_scale as constrain_and_scale
from fedsim.stages.free_rider import free_rider as free_rider
from fedsim.stages.mimic import mimic as mimic
from fedsim.stages.fang import fang as fang
from fedsim.stages.neurotoxin import neurotoxin as neurotoxin
