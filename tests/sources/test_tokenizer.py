"""Tokenizers of `data.tokenizer`, pairs of questions and answers, and perplexity."""

import csv
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.sources.tokenizer import pairs_as_sequences, tokenizer, with_marks

TEXTS = ["", "a", "naïve café 🦊\n\t\0", "ab" * 300, "日本語 mixed with ASCII"]


def test_bytes_come_back_exactly():
    """The tokens are the bytes of UTF-8 plus one, as Python encodes them."""
    by_bytes = tokenizer("bytes")
    assert len(by_bytes.names) == len(set(by_bytes.names)) == 257
    for text in TEXTS:
        codes = by_bytes.encode(text)
        assert codes.tolist() == [byte + 1 for byte in text.encode("utf-8")]
        assert by_bytes.decode(codes) == text
        assert by_bytes.decode([0, *codes.tolist(), 257, 0]) == text


def test_the_answer_alone_has_labels():
    """A label of each of its tokens and of the mark behind it, at the position before."""
    made = with_marks(tokenizer("bytes"))
    asked, answered = "Which colour?", "grün"
    x, y = pairs_as_sequences([asked, "", asked], [answered, "b", answered], made, 24)
    begin, end = 257, 258
    of_answer = made.encode(answered).tolist()
    for row in (0, 2):
        assert x[row].tolist()[: len(asked) + 1] == [*made.encode(asked).tolist(), begin]
        labelled = y[row] >= 0
        assert y[row][labelled].tolist() == [*of_answer, end]
        assert x[row][labelled].tolist() == [begin, *of_answer]
    assert y[1].tolist()[:3] == [99, end, -1]


@pytest.mark.parametrize(("length", "asked", "answered"), [(6, "de", "wxy"), (3, "", "wx")])
def test_a_long_pair_loses_the_start_of_its_question_first(length, asked, answered):
    made = with_marks(tokenizer("bytes"))
    x, y = pairs_as_sequences(["abcde"], ["wxy"], made, length)
    assert made.decode(x[0][x[0] < 257]) == asked + ("wxy" if length == 6 else "wx")
    assert made.decode(y[0][y[0] >= 0][: len(answered)]) == answered


def written(tmp_path, **keys) -> dict:
    """Questions that say which letter to repeat, of four clients."""
    with open(tmp_path / "pairs.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "answer", "client"])
        for i in range(96):
            letter = "abcd"[i % 4]
            rows.writerow([f"say {letter}", 2 * letter, i % 4])
    data = {"kind": "text", "path": str(tmp_path / "pairs.csv"), "column": "question", "length": 12}
    return {
        "name": "pairs",
        "rounds": 1,
        "data": {**data, "tokenizer": "bytes", **keys},
        "client": {"lr": 1.0, "batch": 8},
    }


@pytest.mark.long
def test_pairs_are_learned_and_perplexity_is_exp_of_the_loss(tmp_path):
    scenario = written(tmp_path, answer="answer") | {"evaluate": {"metric": "test_perplexity"}}
    bigrams = (lambda key: jnp.zeros((259, 259)), lambda params, x: params[x])
    result = fedsim.run(scenario, model=bigrams)
    federation = result.experiment.plans[0].federation
    labelled = federation.train.y >= 0
    assert (labelled.sum(1) == 3).all() and federation.classes == 259
    assert result.clients["client"].tolist() == [0, 1, 2, 3]

    rounds = result.rounds
    np.testing.assert_allclose(rounds["test_perplexity"], np.exp(rounds["test_loss"]), rtol=1e-12)
    row = result.summary.iloc[0]
    assert row["metric"] == "test_perplexity" and row["best"] == rounds["test_perplexity"].min()
    assert rounds["test_perplexity"].iloc[-1] < rounds["test_perplexity"].iloc[0]


def test_perplexity_is_over_the_labelled_tokens_alone():
    """From its definition, in NumPy: exp of the mean of −log p over them."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (30, 4)).astype(np.int32)
    y = np.where(rng.random((30, 4)) < 0.5, rng.integers(0, 5, (30, 4)), -1).astype(np.int32)
    y[:, 0] = 1
    data = fedsim.Arrays(x, y, vocabulary=5, x_test=x[:7], y_test=y[:7])
    table = rng.normal(size=(5, 5))
    model = (lambda key: {"W": table}, lambda params, x: params["W"][x])
    result = fedsim.run({"name": "t", "rounds": 0, "data": {"clients": 3}}, data=data, model=model)

    outputs = table[x[:7]]
    logarithms = outputs - np.log(np.exp(outputs).sum(-1, keepdims=True))
    rows, positions = np.nonzero(y[:7] >= 0)
    of_labels = logarithms[rows, positions, y[rows, positions]]
    expected = np.exp(-of_labels.mean())
    assert result.rounds["test_perplexity"].iloc[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.long
def test_sets_of_datasets_become_the_same_tokens(tmp_path):
    """Texts and pairs of `huggingface`, with a test split, as those of `text`."""
    datasets = pytest.importorskip("datasets")
    rows = {"text": ["hello wörld", "ab"], "answer": ["yes", "no"], "client": ["x", "y"]}
    split = datasets.Dataset.from_dict(rows)
    folder = str(tmp_path / "set")
    datasets.DatasetDict({"train": split, "test": split.select([1])}).save_to_disk(folder)
    with open(tmp_path / "t.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerows([rows, *zip(*rows.values(), strict=True)])

    by_bytes = tokenizer("bytes")
    of_table = {"path": str(tmp_path / "t.csv"), "column": "text"}
    for keys, of_text in (({}, {}), ({"target": "answer"}, {"answer": "answer"})):
        arrays = FAMILIES["dataset"]["huggingface"](folder, tokenizer=by_bytes, length=5, **keys)
        table = FAMILIES["dataset"]["text"](**of_table, tokenizer=by_bytes, length=5, **of_text)
        np.testing.assert_array_equal(arrays.x, table.x)
        np.testing.assert_array_equal(arrays.y, table.y)
        assert arrays.client.tolist() == table.client.tolist()
        assert arrays.client_test.tolist() == ["y"] and arrays.labels == table.labels
    with pytest.raises(fedsim.DataError, match="features: no column 'txt'; did you mean 'text'"):
        FAMILIES["dataset"]["huggingface"](folder, features=["txt"], tokenizer=by_bytes)


@pytest.mark.long
def test_a_tokenizer_of_the_package_from_its_file(tmp_path):
    """Its tokens, no others; the resolved scenario holds its hash, and another file is refused."""
    package = pytest.importorskip("tokenizers")
    made = package.Tokenizer(package.models.WordLevel({"say": 0, "a": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = package.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))

    ours = tokenizer(str(tmp_path / "tokenizer.json"))
    assert ours.encode("say a b").tolist() == [0, 1, 2] and ours.names == ["say", "a", "?"]
    file = {"path": str(tmp_path / "tokenizer.json")}
    scenario = read(written(tmp_path, tokenizer=file, answer="answer"))
    federation = federations_of(scenario, None, np.dtype("float32"))[0]
    settled = resolved_data(scenario, None, federation).model_dump(mode="json")
    assert len(settled["tokenizer"]["sha256"]) == 64 and federation.classes == 5

    with pytest.raises(ScenarioError, match=r"data\.tokenizer: .*SHA-256"):
        fedsim.run(written(tmp_path, tokenizer={**file, "sha256": 64 * "0"}))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ScenarioError, match=r"data\.tokenizer: .*not a tokenizer\.json"):
        fedsim.run(written(tmp_path, tokenizer=file))


def test_without_the_package_a_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ScenarioError, match=r"pip install 'fedsim-jax\[text\]'"):
        fedsim.run(written(tmp_path, tokenizer={"path": str(tmp_path / "tokenizer.json")}))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("data.tokenizer=bytes", "data.tokenizer: digits has no texts, which become tokens; leave"),
        ("data={kind: text, path: a, tokenizer: byte}", "data.tokenizer: should be bytes"),
        ("evaluate.metric=test_perplexity", "is for samples in which every token has a label; w"),
    ],
)
def test_what_does_not_fit_is_refused(edit, expected):
    with pytest.raises(ScenarioError) as caught:
        fedsim.run({"name": "refused", "data": {"kind": "digits"}}, edits=[edit])
    assert expected in str(caught.value)
