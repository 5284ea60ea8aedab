"""Objects of the package `datasets` (Hugging Face) as samples in memory."""

# datasets may be missing where types are checked
# pyright: reportMissingImports=false

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.huggingface import huggingface

STREAM = "data: a streamed data set has no end; make a Dataset of it, Dataset.from_list(list(...))"


def samples(data_set: Any, target: str | None = None, client: str | None = None) -> Arrays:
    """Return the samples of a `datasets.Dataset`, or those of a `DatasetDict`, with its test split.

    Columns are found as in data of the kind `huggingface`: features are the only column of images,
    else all columns of numbers; the target is the only ClassLabel column, else `label`.

    Args:
      data_set: the set.
      target: the column of the labels.
      client: the column of the client ids.

    Raises:
      DataError: for a stream, and for columns that cannot be learned from.
    """
    from datasets import Dataset, DatasetDict

    if isinstance(data_set, Dataset):
        data_set = DatasetDict({"train": data_set})
    if not isinstance(data_set, DatasetDict):
        raise DataError(STREAM)
    with tempfile.TemporaryDirectory() as folder:
        with _without_progress():
            data_set.save_to_disk(folder)
        try:
            return huggingface(folder, target=target, client=client)
        except DataError as error:
            text = str(error).removeprefix(folder).removeprefix(": ")
            raise DataError(f"data: {text}") from None


@contextlib.contextmanager
def _without_progress() -> Iterator[None]:
    """Show no bars of the package's own."""
    from datasets.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
