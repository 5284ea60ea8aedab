"""Client methods: hooks on the one local loop, one file per paper; and augmentation of images."""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.clients.sgd import sgd as sgd
from fedsim.clients.augmentation import augmenting as augmenting
from fedsim.clients.augmentation import crop as crop
from fedsim.clients.augmentation import flip as flip
from fedsim.clients.fedprox import fedprox as fedprox
from fedsim.clients.mime import mime as mime
from fedsim.clients.mime import mimelite as mimelite
from fedsim.clients.fedlin import fedlin as fedlin
from fedsim.clients.feddc import feddc as feddc
from fedsim.clients.fedadmm import fedadmm as fedadmm
from fedsim.clients.scaffnew import scaffnew as scaffnew
from fedsim.clients.fedcm import fedcm as fedcm
from fedsim.clients.fedlion import fedlion as fedlion
from fedsim.clients.fednova import fednova as fednova
from fedsim.clients.moon import moon as moon
from fedsim.clients.fedlc import fedlc as fedlc
from fedsim.clients.fedrs import fedrs as fedrs
from fedsim.clients.fedntd import fedntd as fedntd
from fedsim.clients.fedsgd import fedsgd as fedsgd
from fedsim.clients.fedsam import fedsam as fedsam
from fedsim.clients.delta_sgd import delta_sgd as delta_sgd
from fedsim.clients.scaffold import scaffold as scaffold
from fedsim.clients.feddyn import feddyn as feddyn
from fedsim.clients.propfair import propfair as propfair
from fedsim.clients.worker_momentum import worker_momentum as worker_momentum
from fedsim.clients.centralised import centralised as centralised
from fedsim.clients.local_only import local_only as local_only
from fedsim.clients.hooks import carrying as carrying
from fedsim.clients.hooks import tuning as tuning
from fedsim.clients.probe import mean_loss as mean_loss
from fedsim.clients.schedules import by_name as by_name
from fedsim.clients.weighing import balancing as balancing
