"""Data sets that need no download."""

import gzip
from importlib.resources import files

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.columns import Missing
from fedsim.sources.files import Name


@dataset
def digits() -> Arrays:
    """1,797 real images of handwritten digits, 8×8×1, pixels in [0, 1]; comes with fedsim, works offline.

    References:
      E. Alpaydin, C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository.
    """
    table = np.loadtxt(_bundled("digits"), delimiter=",", dtype=np.int64)
    return Arrays((table[:, :-1] / 16).reshape(-1, 8, 8, 1), table[:, -1])


@dataset
def breast_cancer(standardize: bool = True) -> Arrays:
    """569 real tumours, 30 measures of cell nuclei each, benign or malignant; comes with fedsim, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Street, Wolberg, Mangasarian 1993, Nuclear feature extraction for breast tumor diagnosis.
    """
    del standardize  # by `prepare`, which knows the training samples
    return _classes("breast_cancer")


@dataset
def wine(standardize: bool = True) -> Arrays:
    """178 real wines of three growers, 13 chemical measures each; comes with fedsim, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Aeberhard, Forina 1991, Wine, UCI Machine Learning Repository.
    """
    del standardize
    return _classes("wine_data")


@dataset
def iris(standardize: bool = True) -> Arrays:
    """150 real iris flowers of three species, 4 measures each; comes with fedsim, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Fisher 1936, The use of multiple measurements in taxonomic problems, Annals of Eugenics 7.
    """
    del standardize
    return _classes("iris")


@dataset
def diabetes(standardize: bool = True) -> Arrays:
    """442 real patients, 10 measures each, and the progression of their diabetes after a year, over 100 (regression).

    Comes with fedsim, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Efron, Hastie, Johnstone, Tibshirani 2004, Least Angle Regression, Annals of Statistics 32(2).
    """
    del standardize
    return Arrays(
        np.loadtxt(_bundled("diabetes_data_raw")), np.loadtxt(_bundled("diabetes_target")) / 100
    )


def _classes(name: str) -> Arrays:
    """A table whose first line has rows, columns and the names of the classes, and whose last column their numbers."""
    first, *lines = _bundled(name)
    names = np.array(first.strip().split(",")[2:])
    table = np.loadtxt(lines, delimiter=",")
    return Arrays(table[:, :-1], names[table[:, -1].astype(int)])


def _bundled(name: str) -> list[str]:
    """The lines of a file of `samples`, packed or not; they are scikit-learn's, and so is their licence, which lies there."""
    folder = files("fedsim.sources") / "samples"
    packed = folder / f"{name}.csv.gz"
    if packed.is_file():
        return gzip.decompress(packed.read_bytes()).decode().splitlines()
    return (folder / f"{name}.csv").read_text().splitlines()


@dataset
def supplied(
    target: Name = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
) -> Arrays:
    """Samples that a Python program hands over: `fedsim.run(..., data=fedsim.Arrays(x, y))`, `(x, y)`, or a DataFrame.

    Args:
      target: column of the labels in a DataFrame: integers or text are classes, floats regression targets.
      client: column of the client ids; left out: `client`, if there is such a column.
      missing: what happens to blanks, NaN in arrays; as in `csv`.
      standardize: as in `csv`.
      drop: columns that are left out.
      columns: of a DataFrame, as in `csv`.

    Raises:
      DataError: always, on the command line: a scenario file holds no samples.
    """
    del target, client, missing, standardize, drop, columns
    raise DataError(
        "data.kind: supplied: these samples came from a Python program; pass them as fedsim.run(..., data=)"
    )
