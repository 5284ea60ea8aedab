"""Forms of a server: what a round asks of one model; fields have others."""

from fedsim.engine.forms.one import OneModel as OneModel
