"""Sets of the package `datasets` on disk: in each form, byte for byte, and as it writes them."""

import datetime as dt
import importlib.util
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from encoded import (
    FORM,
    classes,
    encoded,
    image_column,
    parquets,
    png_of,
    saved,
    saved_splits,
    streamed,
    typed,
)

from fedsim.errors import DataError
from fedsim.sources import huggingface

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (8, 6, 5), np.uint8)
LABELS = [0, 1, 1, 0, 2, 1, 0, 0]
WHO = list("bbaaccab")


def images(rows=slice(0, 8), **columns) -> pa.Table:
    table = pa.table(
        {"image": image_column([encoded(p) for p in PIXELS[rows]]), "label": LABELS[rows]}
    )
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values[rows]))
    return typed(table, {"image": FORM, "label": classes("cat", "dog", "emu")})


def rows_of(**columns) -> pa.Table:
    return typed(pa.table(columns), {})


def expect(arrays, test: bool) -> None:
    n = 5 if test else 8
    np.testing.assert_array_equal(arrays.x, PIXELS[:n, :, :, None])
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255
    assert arrays.y.tolist() == LABELS[:n] and list(arrays.labels) == ["cat", "dog", "emu"]
    assert arrays.columns["writer"].tolist() == WHO[:n]
    if test:
        np.testing.assert_array_equal(arrays.x_test, PIXELS[5:, :, :, None])
        assert arrays.y_test.tolist() == LABELS[5:]
    else:
        assert arrays.x_test is None


TRAIN, TEST = slice(0, 5), slice(5, 8)


@pytest.mark.parametrize("options", [{"shards": 2}, {"file": True}], ids=["shards", "Arrow file"])
def test_a_set_of_one_split(tmp_path, options):
    expect(huggingface(saved(images(writer=WHO), tmp_path, **options)), False)


def as_cache(tables, folder):
    for split, table in tables.items():
        streamed(table, folder / f"default/0.0.0/abc/set-{split}.arrow")
    streamed(tables["test"], folder / "default/0.0.0/abc/cache-0123456789abcdef.arrow")
    return str(folder)


def as_snapshot(tables, folder):
    parquets(tables, folder / "blobs", "{}")
    shown = folder / "snapshots/0abc/data"
    shown.mkdir(parents=True)
    for split in tables:
        (shown / f"{split}-00000-of-00001.parquet").symlink_to(f"../../../blobs/{split}")
    with pytest.raises(DataError, match="a link that leads out of the folder"):
        huggingface(str(folder / "snapshots/0abc"))
    return str(folder)


FORMS = {
    "save_to_disk": saved_splits,
    "parquet": partial(parquets, name="data/{}-00000-of-00001-0123456789abcdef.parquet"),
    "converted": partial(parquets, name="plain/{}/0000.parquet"),
    "cache": as_cache,
    "snapshot": as_snapshot,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_set_with_splits(tmp_path, form):
    rows = {"train": TRAIN, "test": TEST, "extra": TEST}
    tables = {split: images(of_split, writer=WHO) for split, of_split in rows.items()}
    expect(huggingface(FORMS[form](tables, tmp_path)), True)


def test_columns_by_name(tmp_path):
    path = saved(images(writer=WHO, fold=LABELS[::-1], day=[dt.date(1970, 1, 3)] * 8), tmp_path)
    arrays = huggingface(path, client="writer", target="fold")
    assert arrays.client.tolist() == WHO
    assert arrays.y.tolist() == LABELS[::-1] and arrays.labels is None
    assert arrays.columns["label"].tolist() == [["cat", "dog", "emu"][k] for k in LABELS]
    assert arrays.columns["day"].tolist() == [2] * 8 and "writer" not in arrays.columns
    with pytest.raises(DataError, match="client: no column 'writr'; did you mean 'writer'"):
        huggingface(path, client="writr")
    with pytest.raises(DataError, match="split: no split 'tain'; did you mean 'train'"):
        huggingface(path, split="tain")


def test_the_clients_of_test_rows(tmp_path):
    splits = {"train": images(TRAIN, client=WHO), "test": images(TEST, client=WHO)}
    arrays = huggingface(saved_splits(splits, tmp_path))
    assert arrays.client.tolist() == WHO[:5] and arrays.client_test.tolist() == WHO[5:]


def test_rows_of_numbers_dates_and_texts(tmp_path):
    columns = {
        "age": [30, 40, 50, 60],
        "seen": pa.array([dt.datetime(1970, 1, 2, 12)] * 4, pa.timestamp("us")),
        "town": ["a", "b", "a", "b"],
        "sex": [0, 1, 1, 0],
        "ill": [1, 0, 1, 0],
    }
    table = typed(pa.table(columns), {"sex": classes("f", "m"), "ill": classes("no", "yes")})
    path = saved_splits({"train": table.slice(0, 3), "test": table.slice(3)}, tmp_path)
    arrays = huggingface(path, target="ill", dates="ordinal")
    assert arrays.x.tolist() == [[30, 1.5], [40, 1.5], [50, 1.5]]
    assert list(arrays.labels) == ["no", "yes"]
    assert arrays.x_test.tolist() == [[60, 1.5]] and arrays.y_test.tolist() == [0]
    left = {name: values.tolist() for name, values in arrays.columns.items()}
    assert left == {"town": ["a", "b", "a"], "sex": ["f", "m", "m"]}
    arrays = huggingface(path, target="ill", features=["age", "town", "sex"])
    assert list(arrays.features) == ["age", "town=a", "town=b", "sex=f", "sex=m"]
    assert arrays.x.tolist()[0] == [30, 1, 0, 1, 0]
    with pytest.raises(DataError, match="target: sex, ill hold classes; write target: and one of"):
        huggingface(path)


def test_long_texts_are_no_names(tmp_path):
    path = saved(images(caption=["a" * 10_000, *"bcdefgh"], writer=WHO), tmp_path)
    assert huggingface(path).columns.keys() == {"writer"}
    too_long = "column 'caption': texts of up to 10000 characters, but names have at most"
    with pytest.raises(DataError, match=f"client: {too_long}"):
        huggingface(path, client="caption")
    with pytest.raises(DataError, match=f"split 'train', {too_long}"):
        huggingface(path, target="caption")


def test_blanks(tmp_path):
    table = rows_of(a=[1.0, None, 3.0, 4.0], label=[0, 1, 0, 1], town=["p", "q", "r", "s"])
    path = saved_splits({"train": table.slice(0, 3), "test": table.slice(2)}, tmp_path)
    with pytest.raises(DataError, match="row 1, column 'a': blank; write missing: mean, median"):
        huggingface(path)
    arrays = huggingface(path, missing="drop")
    assert arrays.columns["town"].tolist() == ["p", "r"]
    assert arrays.x.tolist() == [[1], [3]] and arrays.x_test.tolist() == [[3], [4]]
    assert np.isnan(huggingface(path, missing="mean").x[1, 0])


def test_lists_of_one_shape_are_samples(tmp_path):
    grid = np.arange(24.0).reshape(4, 3, 2)
    nested = pa.array(grid.tolist(), pa.list_(pa.list_(pa.float32())))
    path = saved(rows_of(grid=nested, label=[0, 1, 0, 1]), tmp_path / "a")
    np.testing.assert_array_equal(huggingface(path, features=["grid"]).x, grid)
    tokens = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64()))
    fixed = pa.array([[2, 3], [-100, 0]], pa.list_(pa.int64(), 2))
    arrays = huggingface(saved(rows_of(ids=tokens, label=fixed), tmp_path / "b"), features=["ids"])
    assert arrays.x.tolist() == [[1, 2], [3, 4]] and arrays.y.tolist() == [[2, 3], [-1, 0]]
    ragged = pa.array([[1], [3, 4]], pa.list_(pa.int64()))
    with pytest.raises(DataError, match="column 'ids': holds lists of several lengths"):
        huggingface(saved(rows_of(ids=ragged, label=[0, 1]), tmp_path / "c"), features=["ids"])


def test_sets_without_a_word_about_their_columns(tmp_path):
    """Parquet that another program wrote: images by their form, classes by their numbers."""
    table = images(writer=WHO).replace_schema_metadata(None)
    arrays = huggingface(parquets({"train": table}, tmp_path, "{}.parquet"))
    np.testing.assert_array_equal(arrays.x, PIXELS[..., None])
    assert arrays.y.tolist() == LABELS and arrays.labels is None


def test_sizes_and_channels(tmp_path):
    mixed = [encoded(PIXELS[0]), encoded(RNG.integers(0, 256, (7, 5, 3), np.uint8), "JPEG")]
    table = typed(pa.table({"image": image_column(mixed), "label": [0, 1]}), {"image": FORM})
    path = saved(table, tmp_path)
    with pytest.raises(DataError, match=r"images of 2 sizes.*: 6 x 5 \(1\), 7 x 5 \(1\); write"):
        huggingface(path)
    assert huggingface(path, size=[4, 3], channels=1).x.shape == (2, 4, 3, 1)


# ---------------------------------------------------------------------------------- what is refused


def one(folder, image: bytes | None = encoded(PIXELS[0]), label=0) -> str:
    """A set of one image."""
    table = pa.table({"image": image_column([image]), "label": [label]})
    return saved(typed(table, {"image": FORM}), folder)


def damaged(folder, change) -> str:
    path = one(folder)
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(change(file.read_bytes()))
    return path


def with_lying_offsets(content: bytes) -> bytes:
    length = len(encoded(PIXELS[0])).to_bytes(4, "little")
    return content.replace(length, b"\xff\xff\xff\x7f")


def state(folder, text: str) -> str:
    return said(folder, "state.json", text)


def said(folder, name, text) -> str:
    """A set of which a file of JSON says something else."""
    path = one(folder)
    (folder / name).write_text(text)
    return path


ELSEWHERE = '{"_data_files": [{"filename": "../../etc/passwd"}]}'
LABEL = "split 'train', column 'label': "
WRONG = {  # what is wrong -> what writes it, and what is said
    "nothing there": (str, "no files of datasets; write such a folder with ds.save_to_disk"),
    "cut off": (lambda f: damaged(f, lambda b: b[:-120]), "not a sound arrow file"),
    "offsets that lie": (lambda f: damaged(f, with_lying_offsets), "not a sound arrow file"),
    "no image": (lambda f: one(f, b"x"), "1.arrow: row 0 of 'image': not an image of PNG"),
    "a bomb": (lambda f: one(f, png_of(10**5, 10**5)), "'image': has more than 89478485 pixels"),
    "a path alone": (lambda f: one(f, None), "row 0 of 'image': no image there; if it is in a"),
    "no label": (lambda f: one(f, label=-1), f"{LABEL}row 0 has the label -1, which means none"),
    "a blank label": (lambda f: one(f, label=None), LABEL),
    "texts alone": (
        lambda f: saved(rows_of(text=["a"], label=[0]), f),
        "no column of images or numbers; there are text",
    ),
    "another file": (lambda f: state(f, ELSEWHERE), "'../../etc/passwd', but there is no such"),
    "no files": (lambda f: state(f, '{"_data_files": 3}'), "state.json: names no files"),
    "brackets": (lambda f: state(f, "[" * 100_000), "holds no JSON"),
    "no splits": (lambda f: said(f, "dataset_dict.json", '{"splits": [1]}'), "names no splits"),
    "upwards": (lambda f: said(f, "dataset_dict.json", '{"splits": ["../x"]}'), "no ../x/state"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_set_is_refused(tmp_path, case):
    make, says = WRONG[case]
    with pytest.raises(DataError) as error:
        huggingface(make(tmp_path))
    (line,) = error.value.lines
    assert says in line and len(line) < 400 + 2 * len(str(tmp_path))


def test_several_sets_in_a_folder(tmp_path):
    for name in ("fine", "coarse"):
        parquets({"train": images()}, tmp_path, name + "/{}-00000-of-00001.parquet")
    with pytest.raises(DataError, match="holds several sets; give the folder of one: coarse, fine"):
        huggingface(str(tmp_path))
    assert len(huggingface(str(tmp_path / "fine")).y) == 8


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="needs datasets: the extra `tests`"
)
def test_what_the_package_itself_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets
    from PIL import Image

    datasets.disable_progress_bars()
    columns = {  # the values of each, and their type
        "image": ([Image.fromarray(p) for p in PIXELS], datasets.Image()),
        "label": (LABELS, datasets.ClassLabel(names=["cat", "dog", "emu"])),
        "writer": (WHO, datasets.Value("string")),
        "grid": ([np.eye(2)] * 8, datasets.Array2D((2, 2), "float32")),
    }
    whole = datasets.Dataset.from_dict(
        {name: values for name, (values, _) in columns.items()},
        features=datasets.Features({name: form for name, (_, form) in columns.items()}),
    )
    train, test = whole.select(range(5)), whole.select(range(5, 8))
    whole.save_to_disk(tmp_path / "one", num_shards=3)
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "two")
    train.to_parquet(tmp_path / "hub/data/train-00000-of-00001.parquet")
    test.to_parquet(tmp_path / "hub/data/test-00000-of-00001.parquet")
    datasets.load_dataset(str(tmp_path / "hub"), cache_dir=str(tmp_path / "cache"))
    expect(huggingface(str(tmp_path / "one")), False)
    for name in ("two", "hub", "cache"):
        expect(huggingface(str(tmp_path / name)), True)
    grid = huggingface(str(tmp_path / "one"), features=["grid"])
    np.testing.assert_array_equal(grid.x, [np.eye(2)] * 8)
