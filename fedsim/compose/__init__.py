"""Names and composition: how a function becomes a link, and how links become a chain.

A factory's signature is the schema of its section in a scenario; its docstring is what
`fedsim explain` prints. Plug-ins use the same decorators as fedsim.
"""

from fedsim.compose.chains import ServerStep as ServerStep
from fedsim.compose.chains import add_reports as add_reports
from fedsim.compose.chains import aggregate_chain as aggregate_chain
from fedsim.compose.chains import chain as chain
from fedsim.compose.chains import finished_report as finished_report
from fedsim.compose.chains import folding as folding
from fedsim.compose.chains import fresh_rows as fresh_rows
from fedsim.compose.chains import in_parts as in_parts
from fedsim.compose.chains import labels as labels
from fedsim.compose.chains import lift as lift
from fedsim.compose.chains import no_reports as no_reports
from fedsim.compose.chains import plain_context as plain_context
from fedsim.compose.chains import plain_updates as plain_updates
from fedsim.compose.chains import reads_updates_alone as reads_updates_alone
from fedsim.compose.chains import scheduled as scheduled
from fedsim.compose.chains import server_step as server_step
from fedsim.compose.chains import with_row_stage as with_row_stage
from fedsim.compose.codecs import WRAPPED as WRAPPED
from fedsim.compose.codecs import as_stage as as_stage
from fedsim.compose.codecs import codec_stage as codec_stage
from fedsim.compose.codecs import counting_wraps as counting_wraps
from fedsim.compose.codecs import decoding as decoding
from fedsim.compose.codecs import decoding_step as decoding_step
from fedsim.compose.codecs import in_bytes as in_bytes
from fedsim.compose.codecs import initial_memory as initial_memory
from fedsim.compose.codecs import max_bytes as max_bytes
from fedsim.compose.codecs import send_through as send_through
from fedsim.compose.codecs import shaped as shaped
from fedsim.compose.decorators import adapter as adapter
from fedsim.compose.decorators import augmentation as augmentation
from fedsim.compose.decorators import availability as availability
from fedsim.compose.decorators import client as client
from fedsim.compose.decorators import cohort as cohort
from fedsim.compose.decorators import data_attack as data_attack
from fedsim.compose.decorators import dataset as dataset
from fedsim.compose.decorators import link as link
from fedsim.compose.decorators import loss as loss
from fedsim.compose.decorators import method as method
from fedsim.compose.decorators import model as model
from fedsim.compose.decorators import optimizer as optimizer
from fedsim.compose.decorators import partition as partition
from fedsim.compose.decorators import schedule as schedule
from fedsim.compose.decorators import skew as skew
from fedsim.compose.decorators import speed as speed
from fedsim.compose.decorators import timetable as timetable
from fedsim.compose.decorators import topology as topology
from fedsim.compose.links import aggregate_stage as aggregate_stage
from fedsim.compose.links import attack as attack
from fedsim.compose.links import codec as codec
from fedsim.compose.links import row_attack as row_attack
from fedsim.compose.links import rule as rule
from fedsim.compose.links import stage as stage
from fedsim.errors import RegistrationError as RegistrationError
from fedsim.kinds import ALIASES as ALIASES
from fedsim.kinds import FAMILIES as FAMILIES
from fedsim.kinds import alias as alias
from fedsim.kinds import registrations as registrations
from fedsim.kinds import tag_of as tag_of
from fedsim.kinds import unique_names as unique_names
