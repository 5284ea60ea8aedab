"""The chosen setting is the best of those that ran to the end; the steps of all are counted."""

from fedsim.study.tuning import Trial, sensitivity, tuned


def setting_of(lr):
    """The key columns of a setting."""
    return {"method": "m", "tuned": f"client.lr={lr}", "client.lr": lr}


def trial(setting, validation, status=None, steps=0):
    """A setting with its validation scores by seed; without a test score where it has a status."""
    rounds, summary = [], []
    for seed, score in enumerate(validation):
        of_run = status or ("failed" if score is None else None)
        final = None if of_run else score
        rounds.append({"seed": seed, "validation_accuracy": score})
        summary.append({"seed": seed, "final": final, "diverged": 0, "status": of_run})
    timing = [{"local_steps": 0}, {"local_steps": steps}]
    return Trial(setting_of(setting), rounds, summary, timing)


def test_a_setting_that_has_not_run_is_not_chosen_by_the_start_model():
    """Its validation score is that of the initial model, here better than the other setting's."""
    trials = [trial(0.1, [0.9], "not_run"), trial(0.2, [0.4])]
    best, rows = tuned(trials, "test_accuracy", "final")
    assert best == 1
    assert [row["test_mean"] for row in rows] == [None, 0.4]


def test_the_seeds_under_which_a_setting_is_the_best_and_the_steps_of_all_trials_are_counted():
    """The first of ties counts; a trial that failed is never the best, and took no step."""
    scores = {0.1: [0.5, 0.6, 0.7], 0.2: [0.5, 0.9, 0.6], 0.3: [None, 0.1, 0.8]}
    trials = [trial(setting, values, steps=700) for setting, values in scores.items()]
    _, rows = tuned([*trials, Trial(setting_of(3), [], [])], "test_accuracy", "final")
    assert [row["best_seeds"] for row in rows] == [1, 1, 1, 0]
    assert [row["local_steps"] for row in rows] == [700, 700, 700, 0]
    assert sensitivity({"method": "m"}, rows)["tuning_steps"] == 2100


def test_the_chosen_setting_is_one_that_was_played_to_the_end():
    trials = [
        trial(setting, [score], steps=10 * rung)._replace(rung=rung, bracket=0)
        for setting, rung, score in ((0.1, 1, 0.99), (0.2, 2, 0.5), (0.3, 4, 0.8))
    ]
    best, rows = tuned(trials, "test_accuracy", "final")
    assert best == 2
    assert [(row["rung"], row["chosen"]) for row in rows] == [(1, 0), (2, 0), (4, 1)]
    assert {row["bracket"] for row in rows} == {0}
    assert {row["best_seeds"] for row in rows} == {None}  # scores of other rounds do not compare
    of_method = sensitivity({"method": "m"}, rows)
    assert (of_method["trials"], of_method["tuning_steps"]) == (3, 70)
    assert of_method["sensitivity_low"] is None
