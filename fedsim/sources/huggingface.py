"""Sets of the package `datasets` (Hugging Face) on disk, read by pyarrow alone: nothing is fetched, nothing executed."""

from fedsim.compose import alias, dataset
from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import require_pyarrow, sound
from fedsim.sources.columns import Missing
from fedsim.sources.files import Name
from fedsim.sources.folders import folder_files
from fedsim.sources.pictures import Channels, Size
from fedsim.sources.snapshots import WHERE as WHERE
from fedsim.sources.snapshots import declared, splits_of

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
    sha256: str | None = None,
) -> Arrays:
    """A set of the package `datasets` (Hugging Face) in a folder: as `save_to_disk` writes it, of its cache, or of parquet.

    Images (a column of the type Image) are decoded to bytes `[height, width, channels]`, over 255. Otherwise the features are
    all columns of numbers, truth values and dates, one-hot where text is named, by the rules of `csv`; or one column of lists
    of numbers of one shape, `[n, ...]`. Names of ClassLabel columns stay; a target of lists of integers labels every token,
    −100 none. All other columns are there for partitions by their names. Needs pyarrow: `pip install 'fedsim-jax[hf]'`.

    Args:
      path: of the folder, from the scenario's folder, the working directory or a `--data-root`; of the hub's cache the
        folder `datasets--ORG--NAME`.
      target: column of the labels; left out: the only ClassLabel column, else `label`.
      features: columns; left out: the only Image column, else all columns of numbers and dates.
      client: column of the client ids; left out: `client`, if there is such a column.
      split: of the training samples.
      test_split: of the test samples; left out: `test`, where there is one. Other splits are not read.
      size: `[height, width]` that images are resized to (bilinear); needed where they differ.
      channels: 1: grey; 3: colour; left out: 1 where all images are grey.
      missing: what happens to blanks among columns of numbers and text, as in `csv`.
      standardize: as in `csv`.
      sha256: of all files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for a folder without such files, files that lie about sizes, images that are none, and columns that are not
        there or hold nothing to learn from.
    """
    del standardize  # by `prepare`, which knows the training samples
    require_pyarrow("huggingface")  # the import below needs it
    with folder_files(path, sha256) as files, sound("set"):
        splits = splits_of(files)
        for key, name in (("split", split), ("test_split", test_split)):
            if name is not None and name not in splits:
                raise DataError(f"{key}: no split '{name[:60]}'{did_you_mean(name, splits)}")
        named = test_split or ("test" if "test" in splits and split != "test" else None)
        parts = {name: splits[name] for name in (split, named) if name is not None}
        from fedsim.sources.arrow_samples import of_one_column, of_table, one_schema, roles_of

        schema = one_schema({name: file for part in parts.values() for name, file in part.items()})
        roles = roles_of(schema, declared(files, schema.metadata), target, features, client)
        if roles.alone:
            return of_one_column(parts, schema, roles, size, channels)
        return of_table(parts, schema, roles, missing)
