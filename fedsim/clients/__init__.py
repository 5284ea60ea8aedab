"""Client methods: hooks on the one local loop."""

from fedsim.clients.gradient import carrying as carrying
from fedsim.clients.gradient import fedprox as fedprox
from fedsim.clients.gradient import sgd as sgd
from fedsim.clients.normalised import fednova as fednova
from fedsim.clients.schedules import by_name as by_name
from fedsim.clients.variates import feddyn as feddyn
from fedsim.clients.variates import scaffold as scaffold
