"""The data section -> samples: loaded, checked, and split into sets."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.assemble.data_files import data_file, path_of
from fedsim.assemble.fields import fields
from fedsim.assemble.links import factory_of
from fedsim.assemble.memory import check_memory_of_clients
from fedsim.data import Arrays, Sets, prepare
from fedsim.data.completion import Completion
from fedsim.data.label_sets import are_sets, with_label_columns
from fedsim.data.partition import column_of
from fedsim.data.splits import HeldOut
from fedsim.errors import DataError, PartitionError, ScenarioError
from fedsim.installed import added, module_of
from fedsim.models.modules import is_of
from fedsim.scenario.named_files import DATA, TOKENIZER
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import PARTITIONS
from fedsim.sources import is_frame, of_frame
from fedsim.sources.arrays import is_per_token
from fedsim.sources.image_sets import ImageSets, image_sets
from fedsim.sources.table_keys import TableKeys
from fedsim.sources.tokenizer import Tokenizer, tokenizer
from fedsim.types import Loss

NO_CLIENTS = "client needs the clients that the samples name, partition: natural; write all"


def load_samples(scenario: Scenario, data: Any, dtype: np.dtype) -> tuple[Sets, int]:
    """Return the samples by purpose, and how many classes they have."""
    section = scenario.spec.data
    file = path_of(scenario, DATA) if data is None else {}
    made = _tokenizer_of(scenario, data)

    # Numbers that are not finite are refused in `_prepared`, with their rows.
    with np.errstate(over="ignore", invalid="ignore"):
        if data is None:
            arrays = factory_of(section)(**file, **_columns(section), **made)
        else:
            arrays = _arrays_of(scenario, data)
    arrays = _with_labels(scenario, arrays)

    try:
        images = images_of(section, arrays, data is not None)
    except DataError as error:
        raise (error.with_prefix(file["path"]) if file else error) from None
    arrays = images.arrays
    names_column = _client_column(section) is not None
    by_id = is_natural(section, arrays.client is not None or names_column)
    try:
        sets, classes = _prepared(
            section, arrays, by_id, share_of_test_samples(section, data), dtype
        )
    except PartitionError as error:
        raise partition_problem(scenario, error) from None
    except DataError as error:
        raise (error.with_prefix(file["path"]) if file else error) from None

    sets = sets._replace(
        channels_first=images.channels_first,
        remarks=(*arrays.remarks, *images.remarks),
    )
    if by_id:
        text = "leave it out, or choose a partition"
        require_count(scenario, sets.owners, f"the samples name {sets.owners}; {text}")
    single_labels = not is_per_token(sets.train.y)
    check_memory_of_clients(scenario, len(sets.train.y), classes if single_labels else 0)
    return sets, classes


def _with_labels(scenario: Scenario, arrays: Arrays) -> Arrays:
    """The samples, with a number for each label if they may have several; or times and events."""
    section = scenario.spec.model.loss
    made = None if section is None else factory_of(section)()
    targets = made.targets if isinstance(made, Loss) else frozenset()
    if "sets" in targets or ("times" in targets and not are_sets(arrays.y)):
        return with_label_columns(arrays)
    if are_sets(arrays.y):
        raise DataError("y: samples have sets of labels; write model.loss: binary_cross_entropy")
    return arrays


def images_of(section: Any, arrays: Arrays, are_supplied: bool) -> ImageSets:
    """Return samples with their images recognised, where the source does not know of any."""
    knows_images = not hasattr(section, "channel_axis")
    if knows_images and not are_supplied:
        return ImageSets(arrays, False, [])
    axis = getattr(section, "channel_axis", None)
    return image_sets(arrays, axis, getattr(section, "standardize", False))


def _tokenizer_of(scenario: Scenario, data: Any) -> dict[str, Tokenizer]:
    """The argument `tokenizer` of the data set's factory, where the section names one."""
    section = scenario.spec.data
    written = section.tokenizer
    if written is None:
        return {}
    if data is not None or "tokenizer" not in inspect.signature(factory_of(section)).parameters:
        kind = section.kind if data is None else "data="
        text = f"{kind} has no texts, which become tokens"
        raise scenario.error(TOKENIZER, f"{text}; leave it out, or use text or huggingface")
    if isinstance(written, str):
        return {"tokenizer": tokenizer(written)}
    try:
        return {"tokenizer": tokenizer(str(data_file(scenario, TOKENIZER)), written.sha256)}
    except DataError as error:
        raise scenario.error(TOKENIZER, str(error)) from None


def _client_column(section: Any) -> str | None:
    """The column of the samples that a partition reads, where it names one."""
    return getattr(section.partition, "column", None)


def _columns(section: Any) -> dict[str, list[str]]:
    """The key `columns` of a data set that has one, with the column that the partition reads."""
    if not hasattr(section, "columns"):
        return {}
    column = _client_column(section)
    return {"columns": [*section.columns, column] if column else list(section.columns)}


def _prepared(
    section: Any, arrays: Arrays, by_id: bool, test: float, dtype: np.dtype
) -> tuple[Sets, int]:
    """The samples by purpose, and how many classes they have."""
    column = _client_column(section)
    if by_id and column is not None:
        ids = np.asarray(column_of(arrays.columns or {}, column))
        arrays = arrays._replace(client=ids, client_test=None)
    _require_one_test(section, arrays, by_id)
    completes = {key: getattr(section, key) for key in Completion._fields if hasattr(section, key)}
    if completes.get("statistics") == "client" and not by_id:
        raise PartitionError(NO_CLIENTS, "statistics")
    return prepare(
        arrays,
        test=test,
        test_clients=test_clients(section) if by_id else 0.0,
        seed=section.seed,
        dtype=dtype,
        validation=section.validation,
        server=sum(field.held_back(section) for field in fields().values()),
        task=getattr(section, "task", None),
        **completes,
    )


def _require_one_test(section: Any, arrays: Arrays, by_id: bool) -> None:
    """Refuse to cut a test set from samples that bring one."""
    brings_test = arrays.y_test is not None and np.size(arrays.y_test) > 0
    if not brings_test:
        return
    if test_clients(section):
        text = "the samples bring a test set of their own"
        reason = "clients that never train would be another"
        raise PartitionError(f"{text}, and {reason}; remove it", "test")
    if by_id and arrays.client_test is not None and section.client_test:
        text = "the samples bring test samples of every client"
        remedy = "remove it, or choose a partition besides natural"
        raise PartitionError(f"{text}; {remedy}", "client_test")


def _arrays_of(scenario: Scenario, data: Any) -> Arrays:
    """What a Python program passed as samples.

    A frame is read by the keys of the data section; fields read data sets of other libraries.
    """
    section = scenario.spec.data
    for package, libraries in added("DATA_SETS"):
        for library in libraries:
            if is_of(data, library):
                names = _written_columns(section)
                return module_of(package, libraries[library]).samples(data, **names)
    if is_frame(data):
        names = [name for name in TableKeys._fields if hasattr(section, name)]
        keys: dict[str, Any] = {name: getattr(section, name) for name in names}
        keys.update(_columns(section))
        return of_frame(data, TableKeys(**keys))

    if section.kind == "supplied":
        for name in ("target", "client", "drop", "columns"):
            if getattr(section, name) != type(section).model_fields[name].default:
                text = "names a column, and the samples are arrays without names"
                raise scenario.error(("data", name), f"{text}; remove it, or pass a DataFrame")
    if isinstance(data, Mapping):
        unknown = [name for name in data if name not in Arrays._fields]
        if unknown or not {"x", "y"} <= data.keys():
            names = ", ".join(Arrays._fields)
            raise DataError(f"data: expected x, y and perhaps other fields of Arrays ({names})")
        return Arrays(**data)
    return data if isinstance(data, Arrays) else Arrays(*data)


def _written_columns(section: Any) -> dict[str, str]:
    return {
        name: getattr(section, name)
        for name in ("target", "client")
        if name in section.model_fields_set
    }


def partition_section(section: Any, named: bool) -> Any:
    """Return the partition of a data section.

    Where none is written, samples that bring client ids (`named`) have the partition `natural`.
    """
    if "partition" in section.model_fields_set or not named:
        return section.partition
    return PARTITIONS.validate("natural")


def is_natural(section: Any, named: bool) -> bool:
    """Whether clients are those that the samples name, where they bring ids (`named`)."""
    return partition_section(section, named).kind == "natural"


def share_of_test_samples(section: Any, data: Any) -> float:
    """Return the share of the samples to test on.

    Of samples that a Python program passed, none are taken unless the scenario asks for it.
    """
    asked = data is None or "test" in section.model_fields_set
    if not asked or test_clients(section):
        return 0.0
    return section.test


def test_clients(section: Any) -> HeldOut:
    """Return the clients that never train, a share or names; 0 where `test` is one of samples."""
    return getattr(section.test, "clients", 0.0)


def require_count(scenario: Scenario, count: int, reason: str) -> None:
    """Refuse another number of clients than samples or partition decide."""
    section = scenario.spec.data
    if "clients" in section.model_fields_set and section.clients != count:
        text = f"{section.clients} clients, but {reason}"
        raise scenario.error(("data", "clients"), text)


def partition_problem(scenario: Scenario, error: PartitionError) -> ScenarioError:
    """Return samples that cannot be partitioned as an error at the key to blame."""
    return scenario.error(("data", *error.where.split(".")), str(error))
