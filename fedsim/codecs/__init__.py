"""Codecs: what messages become on their way between clients and server; each counts its own bits."""

from fedsim.codecs.cast import cast as cast
from fedsim.codecs.count_sketch import count_sketch as count_sketch
from fedsim.codecs.diana import diana as diana
from fedsim.codecs.ef21 import ef21 as ef21
from fedsim.codecs.error_feedback import error_feedback as error_feedback
from fedsim.codecs.low_rank import low_rank as low_rank
from fedsim.codecs.top_k import top_k as top_k
