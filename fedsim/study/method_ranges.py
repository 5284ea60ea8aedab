"""What methods are tuned over where `compare.ranges` takes that from their files."""

from collections.abc import Collection, Sequence

from fedsim.scenario.fragments import ranges_of_method
from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.methods import CALL, ComparedMethod, kind_of, problems_of_ranges, refuse
from fedsim.study.words import path_and_value

NO_RANGES = (
    "{label}: its files do not say what it is tuned over; "
    "write {{method: {label}, tune: {{client.lr: log(1e-2, 1)}}}}"
)


def with_ranges(
    methods: Sequence[ComparedMethod], client: str, taken: Collection[str], tunes_all: bool
) -> list[ComparedMethod]:
    """Return methods that are tuned over the ranges of their files as well.

    What a method has a value for, or is tuned over already, stays as it is.

    Args:
      client: the kind of the scenario's client, which rules as methods keep.
      taken: paths that vary, or are tuned with all methods.

    Raises:
      ScenarioError: for a method that would not be tuned, and for ranges that cannot be read.
    """
    tuned = []
    problems = []
    for method in methods:
        is_named = isinstance(method.method, str)
        ranges = ranges_of_method(kind_of(method), client) if is_named else {}
        problems += [f"ranges of {method.label}: {text}" for text in problems_of_ranges(ranges)]
        if not ranges and not method.grid and not tunes_all:
            problems.append(NO_RANGES.format(label=method.label))
        tuned.append(_with(method, ranges, taken))
    refuse(problems, "compare.methods")
    return tuned


def _with(method: ComparedMethod, ranges: dict[str, str], taken: Collection[str]) -> ComparedMethod:
    """A method that is tuned over ranges where nothing else decides.

    Args:
      ranges: a hyper-parameter of the method, or a path -> the range.
    """
    decided = {*taken, *method.tune}
    decided |= {path_and_value(edit)[0] for edit in method.edits}
    arguments = _arguments(method)
    decided |= {path_and_value(argument)[0] for argument in arguments}

    tune = dict(method.tune)
    for name, text in ranges.items():
        if name in decided or f"method.{name}" in decided:
            continue
        if "." in name:
            tune[name] = [text]
        else:
            arguments.append(f"{name}={text}")

    call = method.method
    if arguments:
        call = f"{kind_of(method)}({', '.join(arguments)})"
    return method._replace(method=call, tune=tune)


def _arguments(method: ComparedMethod) -> list[str]:
    """The arguments of a method's call, `["mu=0.1"]`; none of a method in another form."""
    match = CALL.fullmatch(method.method) if isinstance(method.method, str) else None
    return [] if match is None else split_at_commas(match[2])
