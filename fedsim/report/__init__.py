"""The report: what a run says, as pandas frames and as files."""

from fedsim.report.directory import load_model as load_model
from fedsim.report.result import Result as Result
from fedsim.report.result import run as run
