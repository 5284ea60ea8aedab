"""Client methods: hooks on the one local loop."""

from fedsim.clients.anchored import fedlin as fedlin
from fedsim.clients.anchored import mime as mime
from fedsim.clients.anchored import mimelite as mimelite
from fedsim.clients.duals import fedadmm as fedadmm
from fedsim.clients.duals import feddc as feddc
from fedsim.clients.duals import scaffnew as scaffnew
from fedsim.clients.gradient import carrying as carrying
from fedsim.clients.gradient import fedprox as fedprox
from fedsim.clients.gradient import sgd as sgd
from fedsim.clients.momentum import fedcm as fedcm
from fedsim.clients.momentum import fedlion as fedlion
from fedsim.clients.normalised import fednova as fednova
from fedsim.clients.objectives import fedlc as fedlc
from fedsim.clients.objectives import fedntd as fedntd
from fedsim.clients.objectives import fedrs as fedrs
from fedsim.clients.objectives import moon as moon
from fedsim.clients.probe import mean_loss as mean_loss
from fedsim.clients.schedules import by_name as by_name
from fedsim.clients.steps import delta_sgd as delta_sgd
from fedsim.clients.steps import fedsam as fedsam
from fedsim.clients.steps import fedsgd as fedsgd
from fedsim.clients.variates import feddyn as feddyn
from fedsim.clients.variates import scaffold as scaffold
