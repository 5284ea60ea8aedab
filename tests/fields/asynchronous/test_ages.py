"""The picture of the ages of messages."""

import pandas as pd

from fedsim.fields.asynchronous.page import histograms
from fedsim.report.context import context_of


def test_a_histogram_has_the_share_of_every_age():
    ages = pd.DataFrame({"method": "a", "seed": 0, "age": [0, 1, 3], "messages": [6, 3, 1]})
    ((one),) = histograms(ages, context_of({}, order=["a", "b"]))
    shares = [line.partition("<")[0] for line in str(one["picture"]).split("<title>")[1:]]
    assert shares == [
        "0: 60.00% of the messages",
        "1: 30.00% of the messages",
        "2: 0.00% of the messages",
        "3: 10.00% of the messages",
    ]
    wide = ages.assign(age=[0, 1, 120])
    (one,) = histograms(wide, context_of({}, order=["a"]))
    assert str(one["picture"]).count("<title>") == 41 and histograms(None, context_of({})) == []
