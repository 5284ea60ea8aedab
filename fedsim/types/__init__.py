"""The nouns: what passes through a round, and the pairs of pure functions that it passes through.

Shape letters: N clients, K cohort (slots), L lanes, B batch, T lane steps, R rounds, D parameters,
W start models in a bank. In every rule, reducer and sampling weight, N counts the clients that can
take part, which are those with samples; `present` is their mask over all ids. Everything that
computes is a pair `(init, apply)`, in the order `(input, state, context) -> (output, state, info)`.
"""

from fedsim.types.client import Bank as Bank
from fedsim.types.client import Client as Client
from fedsim.types.client import FinishHook as FinishHook
from fedsim.types.client import Gossip as Gossip
from fedsim.types.client import GradientHook as GradientHook
from fedsim.types.client import Grouping as Grouping
from fedsim.types.client import LocalPhase as LocalPhase
from fedsim.types.client import Message as Message
from fedsim.types.client import Part as Part
from fedsim.types.client import Reducer as Reducer
from fedsim.types.client import Scored as Scored
from fedsim.types.client import StartHook as StartHook
from fedsim.types.client import StepHook as StepHook
from fedsim.types.client import Travel as Travel
from fedsim.types.server import AdapterLeaves as AdapterLeaves
from fedsim.types.server import AggregateStage as AggregateStage
from fedsim.types.server import Aim as Aim
from fedsim.types.server import Bits as Bits
from fedsim.types.server import Bound as Bound
from fedsim.types.server import Codec as Codec
from fedsim.types.server import Defence as Defence
from fedsim.types.server import Fold as Fold
from fedsim.types.server import Info as Info
from fedsim.types.server import Result as Result
from fedsim.types.server import RowStage as RowStage
from fedsim.types.server import Rule as Rule
from fedsim.types.server import ServerLinks as ServerLinks
from fedsim.types.server import Shapes as Shapes
from fedsim.types.server import Size as Size
from fedsim.types.server import Stage as Stage
from fedsim.types.server import forgetful as forgetful
from fedsim.types.server import no_row as no_row
from fedsim.types.server import stateless as stateless
from fedsim.types.task import BASE as BASE
from fedsim.types.task import LOW_RANK as LOW_RANK
from fedsim.types.task import MERGED as MERGED
from fedsim.types.task import MERGED_BYTES as MERGED_BYTES
from fedsim.types.task import Adapter as Adapter
from fedsim.types.task import Batch as Batch
from fedsim.types.task import Forward as Forward
from fedsim.types.task import Loss as Loss
from fedsim.types.task import Model as Model
from fedsim.types.task import Objective as Objective
from fedsim.types.task import PerSample as PerSample
from fedsim.types.task import Shared as Shared
from fedsim.types.task import Task as Task
from fedsim.types.task import ValueAndGrad as ValueAndGrad
from fedsim.types.task import Work as Work
from fedsim.types.updates import Context as Context
from fedsim.types.updates import Mixing as Mixing
from fedsim.types.updates import ServerLoss as ServerLoss
from fedsim.types.updates import Updates as Updates
from fedsim.types.updates import by_samples as by_samples
from fedsim.types.updates import reported as reported
