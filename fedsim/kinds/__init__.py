"""The kinds: names and factories by family. This package imports neither JAX nor NumPy."""

from fedsim.kinds.names import ALIASES as ALIASES
from fedsim.kinds.names import FAMILIES as FAMILIES
from fedsim.kinds.names import F as F
from fedsim.kinds.names import alias as alias
from fedsim.kinds.names import register as register
from fedsim.kinds.names import registrations as registrations
from fedsim.kinds.names import tag_of as tag_of
from fedsim.kinds.names import unique_names as unique_names
