"""Data sets that need no download, and samples that a program passes."""

import gzip
from importlib.resources import files

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.columns import of_frame
from fedsim.sources.delimited import Dialect, table_of
from fedsim.sources.image_sets import ChannelAxis
from fedsim.sources.table_keys import Missing, Statistics, TableKeys, with_table_keys


@dataset
def digits() -> Arrays:
    """1,797 real images of handwritten digits, 8×8×1, pixels in [0, 1]; bundled, works offline.

    References:
      E. Alpaydin, C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning
      Repository.
    """
    table = np.loadtxt(_lines("digits"), delimiter=",", dtype=np.int64)
    pixels = table[:, :-1] / 16
    return Arrays(pixels.reshape(-1, 8, 8, 1), table[:, -1])


@dataset
def breast_cancer(standardize: bool = True) -> Arrays:
    """569 real tumours, 30 measures of cell nuclei each, benign or malignant; bundled.

    Args:
      standardize: as in `csv`.

    References:
      Street, Wolberg, Mangasarian 1993, Nuclear feature extraction for breast tumor diagnosis.
    """
    del standardize  # done by `prepare`, which knows the training samples
    return _classification("breast_cancer")


@dataset
def wine(standardize: bool = True) -> Arrays:
    """178 real wines of three growers, 13 chemical measures each; bundled, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Aeberhard, Forina 1991, Wine, UCI Machine Learning Repository.
    """
    del standardize
    return _classification("wine_data")


@dataset
def iris(standardize: bool = True) -> Arrays:
    """150 real iris flowers of three species, 4 measures each; bundled, works offline.

    Args:
      standardize: as in `csv`.

    References:
      Fisher 1936, The use of multiple measurements in taxonomic problems, Annals of Eugenics 7.
    """
    del standardize
    return _classification("iris")


@dataset
def diabetes(standardize: bool = True) -> Arrays:
    """442 real patients, 10 measures each; regression of the diabetes progression; bundled.

    The target is the progression after a year, divided by 100.

    Args:
      standardize: as in `csv`.

    References:
      Efron, Hastie, Johnstone, Tibshirani 2004, Least Angle Regression, Annals of Statistics 32(2).
    """
    del standardize
    x = np.loadtxt(_lines("diabetes_data_raw"))
    y = np.loadtxt(_lines("diabetes_target")) / 100
    return Arrays(x, y)


@dataset
def heart_disease(
    missing: Missing = "mean",
    standardize: bool = True,
    statistics: Statistics = "all",
    indicators: bool = False,
    fill: float = 0.0,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
) -> Arrays:
    """920 real patients of four hospitals, heart disease or none; bundled, works offline.

    The hospitals are the clients: Cleveland (303), Hungary (294), Switzerland (123) and VA Long
    Beach (200). 13 columns; texts become a feature for each category. `slope`, `ca` and `thal` are
    mostly missing outside Cleveland, and a cholesterol of 0 (all of Switzerland) was not measured:
    values are as they are in the file. The class is 1, `disease`, where the diagnosis is 1 to 4,
    else 0, `healthy`. With `{drop: [slope, ca, thal], missing: drop}` there are the 740 patients
    (303, 261, 46, 130) of Fed-Heart-Disease in FLamby (du Terrail et al. 2022, arXiv:2210.04620).

    Args:
      missing: as in `csv`.
      standardize: as in `csv`.
      statistics: as in `csv`.
      indicators: as in `csv`.
      fill: as in `csv`.
      drop: columns that are left out.

    References:
      Janosi, Steinbrunn, Pfisterer, Detrano 1988, Heart Disease, UCI Machine Learning Repository,
      doi:10.24432/C52P4X, CC BY 4.0. Detrano et al. 1989, International application of a new
      probability algorithm for the diagnosis of coronary artery disease, American Journal of
      Cardiology 64.
    """
    del standardize, statistics, indicators, fill
    frame = table_of("\n".join(_lines("heart_disease")), Dialect(","))
    frame["num"] = np.where(frame["num"] == "0", "0", "1")
    arrays = of_frame(frame, TableKeys("num", "dataset", missing, drop=drop))
    return arrays._replace(labels=("healthy", "disease"), remarks=())


@dataset
@with_table_keys
def supplied(keys: TableKeys, channel_axis: ChannelAxis = None) -> Arrays:
    """Samples from a Python program: `fedsim.run(..., data=...)` takes arrays or a DataFrame.

    The argument is `fedsim.Arrays(x, y)`, `(x, y)`, or a pandas DataFrame. Keys that name columns
    are for a DataFrame.

    Args:
      keys: those of tables.
      channel_axis: where images have their channels, as in `npz`.

    Raises:
      DataError: always on the command line, since a scenario file holds no samples.
    """
    del keys, channel_axis
    raise DataError(
        "data.kind: supplied: these samples came from a Python program; "
        "pass them as fedsim.run(..., data=)"
    )


def _classification(name: str) -> Arrays:
    """The samples of a bundled table whose last column holds classes.

    Its first line has the numbers of rows and of columns, and the names of the classes.
    """
    first, *lines = _lines(name)
    class_names = np.array(first.strip().split(",")[2:])
    table = np.loadtxt(lines, delimiter=",")
    classes = table[:, -1].astype(int)
    return Arrays(table[:, :-1], class_names[classes])


def _lines(name: str) -> list[str]:
    """The lines of a file in `samples`, plain or gzipped.

    Their sources and licences are in the folder.
    """
    folder = files("fedsim.sources") / "samples"
    packed = folder / f"{name}.csv.gz"
    if packed.is_file():
        return gzip.decompress(packed.read_bytes()).decode().splitlines()
    return (folder / f"{name}.csv").read_text().splitlines()
