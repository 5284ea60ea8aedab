"""Whether metrics fit the samples, as checks like those of `feasibility`."""

from typing import Any, get_args

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of
from fedsim.assemble.problems import Findings
from fedsim.disk.scores import mean_of, score_of
from fedsim.fields.metrics.confusion import MAX_CLASSES
from fedsim.fields.metrics.measured import names_of
from fedsim.fields.metrics.metric import Metric, average_of
from fedsim.kinds import FAMILIES
from fedsim.scenario.expected import joined, value_in_words
from fedsim.scenario.sections import METRICS

PATH = ("evaluate", "metrics")


def foreign_metrics(facts: Facts) -> Findings:
    """Metrics for other targets, or other classes, than the samples have."""
    for i, section in enumerate(facts.spec.evaluate.metrics or ()):
        metric = facts.attempt(lambda section=section: factory_of(section)())
        if metric:
            for key, text in _misfits(section.kind, metric, facts):
                yield (*PATH, i, *key), text


def _misfits(kind: str, metric: Metric, facts: Facts) -> Findings:
    """What a metric cannot score of these samples."""
    classes = facts.classes
    if metric.targets == "any":
        return
    if metric.targets == "times":
        if facts.loss.targets and "times" not in facts.loss.targets:
            yield (), f"{kind} is for times and events; write model.loss: cox or discrete_cox"
        return
    if not classes and "times" in facts.loss.targets:
        yield (), f"{kind} is not for times and events; write c_index"
        return
    if facts.per_token and not metric.tokens:
        text = f"{kind} scores samples, and here every token has a label"
        yield (), f"{text}; test_perplexity is measured; write bits_per_token, log_loss or top_k"
    elif metric.targets == "classes" and not classes:
        text = f"{kind} is for classes, and these targets are numbers"
        yield (), f"{text}; write r2, mae, rmse or pinball"
    elif metric.targets == "numbers" and classes:
        text = f"{kind} is for targets that are numbers, and these are classes"
        yield (), f"{text}; write brier, log_loss or auc"
    elif metric.probabilities and facts.loss.targets and not facts.loss.probabilities:
        text = f"{kind} scores probabilities, and the loss {facts.spec.model.loss.kind} makes none"
        yield (), f"{text}; write auc or f1, or the loss cross_entropy"
    elif classes:
        yield from of_classes(kind, metric, facts.partitioned.label_names)


def of_classes(kind: str, metric: Metric, labels: list[Any]) -> Findings:
    """A class that there is not, or an average or k that does not suit the number of classes."""
    classes = len(labels)
    positive = metric.positive
    if positive is not None and positive not in labels:
        known = joined(map(str, labels[:10])) + (" ..." if classes > 10 else "")
        yield ("positive",), f"no class is called {value_in_words(positive)}; write {known}"
    average = average_of(metric.average, positive, classes)
    if positive is not None and average != "binary":
        text = f"is about all classes under average {average}"
        yield ("positive",), f"{kind} {text}; remove it, or write average: binary"
    if positive is None and metric.average == "binary" and classes > 2:
        text = f"binary is about one of {classes} classes; write positive: CLASS, or average: macro"
        yield ("average",), text
    if metric.more_than > 1 and metric.more_than >= classes:
        text = f"is {metric.more_than}, and all of {classes} classes would be a hit"
        yield ("k",), f"{text}; write {classes - 1} or less"


def foreign_confusion(facts: Facts) -> Findings:
    """A confusion matrix of numbers, tokens, or too many classes."""
    if not facts.spec.evaluate.confusion:
        return
    text = ""
    if not facts.classes:
        text = "counts classes, and these targets are numbers"
    elif facts.per_token:
        text = "counts samples, and here every token has a label"
    elif facts.classes > MAX_CLASSES:
        text = f"is for {MAX_CLASSES} classes at most, and there are {facts.classes}"
    if text:
        yield ("evaluate", "confusion"), f"{text}; remove it"


def unmeasured_metric(facts: Facts) -> Findings:
    """The same metric twice, or a score to rank by that is not measured."""
    evaluate = facts.spec.evaluate
    if facts.sound(PATH):
        names = names_of(evaluate.metrics or ())
        for i, name in enumerate(names):
            if name in names[:i]:
                yield (*PATH, i), f"{name} is measured already; remove one, or change a parameter"
        score = score_of(evaluate.metric)
        kinds = [kind for kind in FAMILIES["metric"] if f"{score}_".startswith(f"{kind}_")]
        if kinds and score not in names and mean_of(evaluate.metric) not in get_args(METRICS):
            known = [name for name in names if name.startswith(max(kinds, key=len))]
            remedy = f"write {evaluate.metric.replace(score, known[0])}" if known else ""
            remedy = remedy or f"write evaluate.metrics: [{max(kinds, key=len)}]"
            yield ("evaluate", "metric"), f"{evaluate.metric} is not measured; {remedy}"
