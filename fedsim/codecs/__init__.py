"""Codecs: how messages travel between clients and server; each counts its bits."""

from fedsim.codecs.cast import cast as cast
from fedsim.codecs.count_sketch import count_sketch as count_sketch
from fedsim.codecs.diana import diana as diana
from fedsim.codecs.drive import drive as drive
from fedsim.codecs.eden import eden as eden
from fedsim.codecs.ef21 import ef21 as ef21
from fedsim.codecs.error_feedback import error_feedback as error_feedback
from fedsim.codecs.lazy import lazy as lazy
from fedsim.codecs.low_rank import low_rank as low_rank
from fedsim.codecs.natural import natural as natural
from fedsim.codecs.product_quantise import product_quantise as product_quantise
from fedsim.codecs.qsgd import qsgd as qsgd
from fedsim.codecs.rand_k import rand_k as rand_k
from fedsim.codecs.secure_aggregation import secure_aggregation as secure_aggregation
from fedsim.codecs.sign import sign as sign
from fedsim.codecs.stochastic_quantise import stochastic_quantise as stochastic_quantise
from fedsim.codecs.terngrad import terngrad as terngrad
from fedsim.codecs.threshold import threshold as threshold
from fedsim.codecs.top_k import top_k as top_k
