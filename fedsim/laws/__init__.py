"""Laws that a kind keeps or breaks, tried on small cases: `fedsim.conform` and its command."""

from fedsim.laws.conform import conform as conform
from fedsim.laws.findings import Conformity as Conformity
from fedsim.laws.findings import Finding as Finding
from fedsim.laws.findings import lines_of as lines_of
