"""Columns of Arrow tables: which are features, labels, texts and clients; imports pyarrow."""

from typing import Any, Literal, NamedTuple

from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrow_columns import TYPES, is_image, is_nested, is_text

TEXT = "text"  # the column of the texts, where none is named


class Roles(NamedTuple):
    """The role of each column."""

    target: str  # the column of the labels
    features: list[str]  # the columns of the features
    client: str | None  # the column of the ids, if there is one
    # one column of images, one of lists, or columns of a table
    form: Literal["images", "lists", "table"]
    classes: dict[str, list[str]]  # the names of the classes of every ClassLabel column

    @property
    def used(self) -> set[str | None]:
        """The columns that have a role."""
        return {*self.features, self.target, self.client}


def roles_of(
    schema: Any,
    declarations: dict[str, Any],
    target: str | None,
    features: list[str],
    client: str | None,
) -> Roles:
    """Assign roles to the columns of a set, whose writer made declarations about some, by name.

    Without a name, the target is the only ClassLabel column, else `label`; the client is `client`,
    if there is such a column. Without features, they are the image column, else all numbers.
    """
    names = schema.names
    classes = _class_names(declarations)
    images = [n for n in names if is_image(schema.field(n).type, declarations.get(n, {}))]

    problems = []
    candidates = [name for name in names if name in classes]
    label = target or (candidates[0] if len(candidates) == 1 else "label")
    if target is None and len(candidates) > 1 and "label" not in candidates:
        listed = ", ".join(candidates)[:120]
        problems.append(f"target: {listed} hold classes; write target: and one of them")
    if client is None and "client" in names and label != "client":
        client = "client"

    requested = [("target", label), ("client", client)]
    requested += [("features", name) for name in features]
    for key, name in requested:
        if name is not None and name not in names and not problems:
            problems.append(f"{key}: no column {name[:60]!a}{did_you_mean(name, names)}")

    if not features and images:
        features = images
        if len(images) > 1:
            listed = ", ".join(images)[:120]
            problems.append(f"features: {listed} hold images; write features: [{images[0]}]")
    elif not features:
        excluded = {label, client, *classes}
        features = [
            n for n in names if n not in excluded and TYPES.is_primitive(schema.field(n).type)
        ]
        if not features and not problems:
            listed = ", ".join(f"{name} ({schema.field(name).type})" for name in names)[:160]
            problems.append(f"features: no column of images or numbers; there are {listed}")
    for key, name in (("target", label), ("client", client)):
        if name in features:
            problems.append(f"features: column {name[:60]!a} is the {key}")
    if problems:
        raise DataError(*problems)

    form = "table"
    if len(features) == 1 and features[0] in images:
        form = "images"
    elif len(features) == 1 and is_nested(schema.field(features[0]).type):
        form = "lists"
    return Roles(label, features, client, form, classes)


def text_roles(
    schema: Any, features: list[str], target: str | None, client: str | None
) -> dict[str, str]:
    """Return which columns hold the `texts`, their `answers` and the ids of the `client`.

    By default they are `text`, none, and `client` if there is such a column.
    """
    names = schema.names
    text, *others = features or [TEXT]
    if client is None and "client" in names and "client" not in (text, target):
        client = "client"

    problems = []
    if others:
        problems.append(f"features: a tokenizer reads one column; write [{text[:60]}] alone")
    for key, name in (("features", text), ("target", target), ("client", client)):
        if name is None:
            continue
        if name not in names:
            problems.append(f"{key}: no column {name[:60]!a}{did_you_mean(name, names)}")
        elif key != "client" and not is_text(schema.field(name).type):
            column_type = schema.field(name).type
            problems.append(f"{key}: column {name[:60]!a} holds {column_type}, not texts")
    if problems:
        raise DataError(*problems)
    roles = {"texts": text, "answers": target, "client": client}
    return {role: name for role, name in roles.items() if name is not None}


def _class_names(declarations: dict[str, Any]) -> dict[str, list[str]]:
    """The names of the classes of every column that is declared to hold classes."""
    declared = {column: declaration.get("names") for column, declaration in declarations.items()}
    classes = {}
    for column, names in declared.items():
        if isinstance(names, list):
            classes[column] = list(map(str, names))
    return classes
