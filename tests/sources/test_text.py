"""Texts as sequences of tokens: plain, by client in a table, and refused where there is none."""

import gzip

import numpy as np
import pytest

from fedsim.compose import FAMILIES
from fedsim.sources.tokens import next_tokens


def read(path, content, **keys):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return FAMILIES["dataset"]["text"](path=str(path), **keys)


def spelled(arrays, rows):
    return [[arrays.labels[code] if code >= 0 else None for code in row] for row in rows]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_plain_text(tmp_path, pack):
    arrays = read(tmp_path / "a.txt", pack(b"banana\r\nb"), length=3)
    pad = "<padding>"
    assert arrays.labels == [pad, "<unknown>", "a", "b", "n", "\n"] and arrays.vocabulary == 6
    assert spelled(arrays, arrays.x) == [list("ban"), list("ana"), ["\n", "b", pad]]
    assert spelled(arrays, arrays.y) == [list("ana"), ["n", "a", "\n"], ["b", None, None]]
    assert arrays.client is None


def test_few_tokens_stand_for_the_others(tmp_path):
    arrays = read(tmp_path / "a.txt", "banana", length=5, vocabulary=3)
    assert arrays.x.tolist() == [[1, 2, 1, 2, 1]] and arrays.y.tolist() == [[2, 1, 2, 1, 2]]


def test_words_by_client_of_a_table(tmp_path):
    table = 'play\ttext\tclient\nx\t"To be, or not\nto be"\tHamlet\n'
    table += "y\tAlas!\tHamlet\nz\tWho?\t Yorick\nz\t\tYorick\n"
    arrays = read(tmp_path / "a.tsv", table, column="text", tokens="word", length=4)
    assert arrays.client.tolist() == ["Hamlet", "Hamlet", "Hamlet", "Yorick"]
    assert spelled(arrays, arrays.x)[0] == ["to", "be", ",", "or"]
    assert spelled(arrays, arrays.y)[2][:2] == ["!", None]
    assert arrays.labels[2:4] == ["be", "to"]
    arrays = read(tmp_path / "a.tsv", table, column="text", client="play", length=4)
    assert set(arrays.client) == {"x", "y", "z"}


def test_every_token_but_the_first_is_a_label_once():
    rng = np.random.default_rng(0)
    for size in range(12):
        codes = rng.integers(2, 9, size)
        for length in (1, 2, 3, 20):
            x, y = next_tokens(codes, length)
            assert y[y >= 0].tolist() == codes[1:].tolist() and (y >= 0).any(1).all()
            assert x[y >= 0].tolist() == codes[:-1].tolist()
            assert x.shape == y.shape == (-(-max(size - 1, 0) // length), length)
