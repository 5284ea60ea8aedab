"""Rules: a stack of updates -> one tree, a file for each paper.

The client axis collapses here and nowhere else.
"""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.rules.fedavgm import fedavgm as fedavgm
from fedsim.rules.fedadam import fedadagrad as fedadagrad
from fedsim.rules.fedadam import fedadam as fedadam
from fedsim.rules.fedadam import fedyogi as fedyogi
from fedsim.rules.sgd import sgd as sgd
from fedsim.rules.nova import nova as nova
from fedsim.rules.fedexp import fedexp as fedexp
from fedsim.rules.mean_over_all import mean_over_all as mean_over_all
from fedsim.rules.horvitz_thompson import horvitz_thompson as horvitz_thompson
from fedsim.rules.mifa import mifa as mifa
from fedsim.rules.fedvarp import fedvarp as fedvarp
from fedsim.rules.ca2fl import ca2fl as ca2fl
from fedsim.rules.fedau import fedau as fedau
from fedsim.rules.dyn import dyn as dyn
from fedsim.rules.q_fair import q_fair as q_fair
from fedsim.rules.agnostic import agnostic as agnostic
from fedsim.rules.term import term as term
from fedsim.rules.delta_fl import delta_fl as delta_fl
from fedsim.rules.gifair import gifair as gifair
from fedsim.rules.fedmgda import fedmgda as fedmgda
from fedsim.rules.geometric_median import geometric_median as geometric_median
from fedsim.rules.geometric_median import rfa as rfa
from fedsim.rules.centered_clipping import centered_clipping as centered_clipping
from fedsim.rules.mean import mean as mean
from fedsim.rules.optimizers import by_name as by_name
from fedsim.rules.median import median as median
from fedsim.rules.trimmed_mean import trimmed_mean as trimmed_mean
from fedsim.rules.krum import krum as krum
from fedsim.rules.krum import multi_krum as multi_krum
from fedsim.rules.mean_around_median import mean_around_median as mean_around_median
from fedsim.rules.phocas import phocas as phocas
from fedsim.rules.bulyan import bulyan as bulyan
from fedsim.rules.sign_majority import sign_majority as sign_majority
from fedsim.rules.minimum_diameter import minimum_diameter as minimum_diameter
from fedsim.rules.smallest_eigenvalue import smallest_eigenvalue as smallest_eigenvalue
from fedsim.rules.covariance_filter import covariance_filter as covariance_filter
from fedsim.rules.divide_and_conquer import divide_and_conquer as divide_and_conquer
from fedsim.rules.robust_learning_rate import robust_learning_rate as robust_learning_rate
from fedsim.rules.foolsgold import foolsgold as foolsgold
from fedsim.rules.flame import flame as flame
from fedsim.rules.largest_cluster import largest_cluster as largest_cluster
from fedsim.rules.monna import monna as monna
from fedsim.rules.sign_guard import sign_guard as sign_guard
from fedsim.rules.three_sigma import three_sigma as three_sigma
from fedsim.rules.auto_gm import auto_gm as auto_gm
from fedsim.rules.residual_reweighting import residual_reweighting as residual_reweighting
from fedsim.rules.lasa import lasa as lasa
from fedsim.rules.fldetector import fldetector as fldetector
from fedsim.rules.hierarchical import hierarchical as hierarchical
