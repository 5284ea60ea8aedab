"""What the clients of one round do when: against the plan and the flights themselves, its table, pictures and the page."""

import json

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.disk.tables import read_table
from fedsim.fleet.timelines import timeline
from fedsim.report import page
from fedsim.report.derived import derived_files
from fedsim.report.figures import figure_of_machines, figures_of_machines
from fedsim.report.page.left_out import classes_of, left_out
from fedsim.report.page.staleness import histograms
from fedsim.report.timelines import panels
