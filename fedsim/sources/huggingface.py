"""Data sets of the package `datasets` (Hugging Face), read by pyarrow alone.

Nothing is fetched, and nothing is executed.
"""

from fedsim.compose import alias, dataset
from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import one_schema
from fedsim.sources.cells import Task
from fedsim.sources.files import Name, sound
from fedsim.sources.folders import folder_files
from fedsim.sources.image_sets import ChannelAxis
from fedsim.sources.packages import required
from fedsim.sources.pictures import Channels, Size
from fedsim.sources.snapshots import WHERE as WHERE
from fedsim.sources.snapshots import declared_columns, splits_of
from fedsim.sources.table_keys import Dates, Missing, TableKeys
from fedsim.sources.tokenizer import Tokenizer
from fedsim.sources.tokens import Length

alias(hf="huggingface", arrow="huggingface")


@dataset
def huggingface(
    path: Name,
    target: Name | None = None,
    features: list[Name] = [],  # noqa: B006 (read, never changed)
    client: Name | None = None,
    split: Name = "train",
    test_split: Name | None = None,
    size: Size = None,
    channels: Channels = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    channel_axis: ChannelAxis = None,
    dates: Dates = None,
    task: Task = None,
    sha256: str | None = None,
    length: Length = 80,
    tokenizer: Tokenizer | None = None,
) -> Arrays:
    """A folder of the package `datasets` (Hugging Face): saved, cached, or in Parquet files.

    The folder is one that `save_to_disk` writes, one of the package's cache, or one of Parquet
    files as the hub has them.

    Images (a column of the type Image) are decoded to bytes `[height, width, channels]`, divided by
    255. Otherwise the features are all columns of numbers, truth values and dates, and also text
    where `features` names it, which becomes one-hot, by the rules of `csv`; or one column of lists
    of numbers, all of the same shape `[n, ...]`. ClassLabel columns keep the names of their
    classes; in a target of lists of integers, every token has a label, −100 means none. All other
    columns can be used by partitions under their names. Needs pyarrow:
    `pip install 'fedsim-jax[hf]'`.

    With `data.tokenizer`, samples are texts, as in `text`: those of the column in `features`, by
    default `text`, with the next token at every position; or questions, where `target` is the
    column of their answers.

    Args:
      path: the folder, in the scenario's folder, the working directory or a `--data-root`; in the
        hub's cache, the folder `datasets--ORG--NAME`.
      target: the column of the labels; left out: the only ClassLabel column, else `label`.
      features: columns; left out: the only Image column, else all columns of numbers and dates.
      client: the column of the client ids; left out: `client`, if there is such a column.
      split: the split of the training samples.
      test_split: the split of the test samples; left out: `test`, if there is one. Other splits are
        not read.
      size: `[height, width]` that images are resized to (bilinear); needed where they differ.
      channels: 1: grey; 3: colour; left out: 1 where all images are grey.
      missing: what happens to blanks among columns of numbers and text, as in `csv`.
      standardize: as in `csv`.
      channel_axis: as in `npz`, for lists.
      dates: as in `csv`.
      task: as in `csv`, of columns of numbers and text.
      sha256: the common hash of all files; others are refused (filled in by the resolved scenario).
      length: with a tokenizer, the number of tokens of a sequence.
      tokenizer: what makes tokens of texts.

    Raises:
      DataError: for a folder without such files, files that lie about sizes, unsound images, and
        columns that do not exist or cannot be learned from.
    """
    del standardize, channel_axis  # done later, when the training samples are known
    required("pyarrow", "huggingface", "hf")
    with folder_files(path, sha256) as files, sound("set"):
        splits = splits_of(files)
        for key, name in (("split", split), ("test_split", test_split)):
            if name is not None and name not in splits:
                raise DataError(f"{key}: no split '{name[:60]}'{did_you_mean(name, splits)}")
        if test_split is None and "test" in splits and split != "test":
            test_split = "test"
        used = {split: splits[split]}
        if test_split is not None:
            used[test_split] = splits[test_split]

        from fedsim.sources import arrow_roles, arrow_samples

        shards = {name: file for files in used.values() for name, file in files.items()}
        schema = one_schema(shards)
        if tokenizer is not None:
            columns = arrow_roles.text_roles(schema, features, target, client)
            return arrow_samples.of_texts(used, columns, tokenizer, length)
        declarations = declared_columns(files, schema.metadata)
        roles = arrow_roles.roles_of(schema, declarations, target, features, client)
        keys = TableKeys(roles.target, roles.client, missing, dates=dates, task=task)
        return arrow_samples.of_rows(used, schema, roles, keys, size, channels)
