"""The patients of four hospitals that come with fedsim."""

from importlib.resources import files

import numpy as np

from fedsim.sources import heart_disease

COLUMNS = ["slope", "ca", "thal"]
SAMPLES = files("fedsim.sources") / "samples"


def sizes(arrays):
    return dict(
        zip(*(part.tolist() for part in np.unique(arrays.client, return_counts=True)), strict=True)
    )


def test_the_hospitals_are_the_clients():
    arrays = heart_disease()
    assert sizes(arrays) == {
        "Cleveland": 303,
        "Hungary": 294,
        "Switzerland": 123,
        "VA Long Beach": 200,
    }
    assert arrays.labels == ("healthy", "disease") and arrays.y.sum() == 509
    blanks = dict(zip(arrays.features, np.isnan(arrays.x).sum(0), strict=True))
    assert blanks["ca"] == 611 and blanks["chol"] == 30 and blanks["age"] == 0


def test_without_three_columns_740_patients_are_complete_as_in_flamby():
    arrays = heart_disease(drop=COLUMNS, missing="drop")
    assert list(sizes(arrays).values()) == [303, 261, 46, 130]
    assert len({name.partition("=")[0] for name in arrays.features}) == 10


def test_the_licence_is_beside_the_file():
    text = (SAMPLES / "HEART_DISEASE.md").read_text()
    assert "CC BY 4.0" in text and "Changes:" in text
    assert len((SAMPLES / "heart_disease.csv").read_text().splitlines()) == 921
