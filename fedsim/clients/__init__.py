"""Client methods: hooks on the one local loop."""

from fedsim.clients.gradient import sgd as sgd
