"""What a final model says of new samples: the outputs that its scores are made of."""

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.engine.outputs import like_training
from fedsim.scenario import read

BLOBS = {"kind": "gaussian_blobs", "samples": 300, "clients": 4, "test": 0.2}
SMALL = {"name": "small", "rounds": 2, "data": BLOBS, "model": "logistic", "client": {"lr": 0.1}}


@pytest.fixture(scope="module")
def result():
    return fedsim.run({**SMALL, "rounds": 0})


def by_hand(params, x):
    return x @ params["W"] + params["b"]


@pytest.mark.long
def test_outputs_are_those_of_the_model_that_was_scored():
    result = fedsim.run(SMALL)
    test = result.experiment.plans[0].federation.test
    outputs = result.predict(test.x)
    np.testing.assert_allclose(outputs, by_hand(result.model(), test.x), rtol=1e-5, atol=1e-5)
    accuracy = (outputs.argmax(1) == test.y).mean()
    assert accuracy == pytest.approx(result.rounds["test_accuracy"].iloc[-1])


@pytest.mark.long
def test_a_client_s_own_model_answers_for_it():
    result = fedsim.run(SMALL, edits=["client.kind=ditto", "client.lam=0.1"])
    x = result.experiment.plans[0].federation.test.x
    own = result.predict(x, client=1)
    np.testing.assert_allclose(own, by_hand(result.model(client=1), x), rtol=1e-5, atol=1e-5)
    assert not np.array_equal(own, result.predict(x))


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.zeros((3, 5)), r"samples of the scenario are \[n, 20\]; found \[3, 5\]"),
        (np.zeros(20), r"found \[20\]"),
        (np.zeros((0, 20)), "no samples"),
        (np.full((1, 20), "a"), "samples of the scenario are float32; found <U1"),
        (pd.DataFrame(np.zeros((3, 20))), "samples have no names of columns; give an array"),
    ],
)
def test_samples_of_another_kind_are_refused(result, x, text):
    with pytest.raises(ValueError, match=text):
        result.predict(x)


@pytest.mark.long
def test_pixels_that_do_not_fit_are_refused():
    data = {"x": np.zeros((40, 2, 2), np.uint8), "y": np.arange(40) % 2}
    sections = {**SMALL, "data": {"clients": 2, "test": 0.2}, "rounds": 1}
    result = fedsim.run(sections, data=data)
    assert result.predict(np.full((1, 2, 2), 255)).shape == (1, 2)
    with pytest.raises(ValueError, match="values of the scenario are 0 to 255; found 256"):
        result.predict(np.full((1, 2, 2), 256))


@pytest.mark.parametrize(
    ("client", "text"), [(4, "the clients are 0 to 3"), (0, "no models of their own")]
)
def test_a_client_without_a_model_is_refused(result, client, text):
    predict = lambda client: result.predict(np.zeros((1, 20)), client=client)
    for asked in (predict, lambda client: result.model(client=client)):
        with pytest.raises(ValueError, match=text):
            asked(client)


PEOPLE = pd.DataFrame(
    {
        "age": np.tile([20.0, 30, 41, 52, 60], 8),
        "town": np.tile(["ulm", "bern", "linz", "ulm"], 10),
        "ward": np.arange(40) % 4,
        "dose": np.linspace(-1, 1, 40),
        "ill": np.where(np.arange(40) % 3 > 0, "yes", "no"),
    }
)


def on_people(form, folder, frame=PEOPLE, **keys):
    """The scenario and the data of a table in a file, of the frame, or of arrays with names."""
    section = {"kind": "supplied", "test": 0.2, "standardize": True, **keys}
    if form == "arrays":
        names = ["age", "dose"]
        data = fedsim.Arrays(frame[names].to_numpy(), frame["ill"].to_numpy(), features=names)
        return {**SMALL, "data": {**section, "clients": 4}}, data

    section |= {"target": "ill", "client": "ward"}
    if form == "frame":
        return {**SMALL, "data": section}, frame
    path = folder / f"people.{form}"
    getattr(frame, f"to_{form}")(path, index=False)
    return {**SMALL, "data": {**section, "kind": form, "path": str(path)}}, None


def read_people(form, folder, frame=PEOPLE, **keys):
    """How the samples of new frames are read."""
    scenario, data = on_people(form, folder, frame, **keys)
    f = federations_of(read(scenario), data, np.dtype("float32"))[0]
    return lambda new: like_training(new, f)


@pytest.mark.parametrize("form", ["frame", "arrays", "csv", "parquet"])
def test_a_frame_is_read_by_the_names_of_its_columns(form, tmp_path):
    read_frame = read_people(form, tmp_path)
    frame = PEOPLE[["age", "dose"]] if form == "arrays" else PEOPLE
    expected = read_frame(frame)
    assert expected.shape == (40, 2 if form == "arrays" else 5)

    reversed_columns = frame[frame.columns[::-1]]
    features = frame.drop(columns=["ill", "ward"], errors="ignore")

    np.testing.assert_array_equal(read_frame(reversed_columns), expected)
    np.testing.assert_array_equal(read_frame(features), expected)
    with pytest.raises(ValueError, match="x: no column 'dose', which is a feature"):
        read_frame(frame.drop(columns="dose"))
    with pytest.raises(ValueError, match="x: column 'fee' is unknown; leave it out"):
        read_frame(frame.assign(fee=1.0))


def test_the_column_without_a_name_is_that_of_pandas(tmp_path):
    PEOPLE.to_csv(tmp_path / "t.csv")  # with its index
    keys = {"kind": "csv", "path": str(tmp_path / "t.csv"), "target": "ill", "client": "ward"}
    scenario = {**SMALL, "data": {**keys, "drop": [""]}}
    f = federations_of(read(scenario), None, np.dtype("float32"))[0]
    assert like_training(pd.read_csv(tmp_path / "t.csv"), f).shape == (40, 5)


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("town", "rome", "row 0, column 'town': 'rome' is unknown; .* are 'bern', 'linz', 'ulm'"),
        ("town", None, "row 0, column 'town': blank; the texts"),
        ("age", "old", "row 0, column 'age': 'old' is not a number .and 39 more"),
        ("age", np.nan, "row 0, column 'age': blank; the scenario fills none"),
    ],
)
def test_cells_that_training_had_not_are_named(column, value, text, tmp_path):
    with pytest.raises(ValueError, match=text):
        read_people("frame", tmp_path)(PEOPLE.assign(**{column: value}))


def test_a_frame_with_blanks_is_filled_as_the_training_samples_were(tmp_path):
    frame = PEOPLE.copy()
    frame.loc[3, "age"] = np.nan
    frame.loc[4, "town"] = None
    read_frame = read_people("frame", tmp_path, frame, missing="mean")

    x = read_frame(frame)

    assert np.isfinite(x).all() and x[3, 0] == pytest.approx(0, abs=1e-6)  # the mean, standardised
    others = frame.index != 3
    np.testing.assert_array_equal(x[others], read_frame(frame.fillna({"age": 50}))[others])


@pytest.mark.long
def test_new_samples_are_brought_to_the_scale_of_the_training_samples(tmp_path):
    scenario, data = on_people("arrays", tmp_path, test=0)
    result = fedsim.run(scenario, data=data)
    x = result.experiment.plans[0].federation.train.x
    for new in (PEOPLE[["dose", "age"]], PEOPLE[["age", "dose"]].to_numpy()):
        expected = by_hand(result.model(), x)
        np.testing.assert_allclose(result.predict(new), expected, rtol=1e-5, atol=1e-5)
