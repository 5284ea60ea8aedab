"""Row 20: ε is never below a lower bound of it, and always there is a banner.

The lower bound is dp-accounting's optimistic estimate. Its usual one is pessimistic, as ours
is, and should be nearly the same. Banners are looked for on pages and in what a run prints.
"""

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

import fedsim
from fedsim.cli.entry import main as command
from trust.table import Figure

# ε may be below a lower bound by rounding alone, and this far from another upper bound.
ROUNDING = 1e-6
CLOSE = 2e-3
SETTINGS = 60
INTERVAL = 1e-3  # of dp-accounting's grid
MARK = "Privacy is simulated, not for release"

PRIVACY = {"clip": 0.5, "noise_multiplier": 1.5, "delta": 1e-5}
BUFFERS = {"kind": "blt", "buffers": 2, "decay": [0.9, 0.3], "scale": [0.2, 0.25]}
DP_SGD = {"clip": 0.5, "noise_multiplier": 1.5}
LOCAL = {"norm": 0.5, "epsilon": 2.0}
BLOBS = {"kind": "gaussian_blobs", "samples": 100, "clients": 4}
STANDING = {"lr": 0.0, "batch": "full"}
# Where the noise is -> sections of a scenario
NOISED: dict[str, dict[str, Any]] = {
    "gaussian": {"privacy": PRIVACY},
    "tree": {"privacy": {**PRIVACY, "mechanism": "tree"}},
    "banded": {"privacy": {**PRIVACY, "mechanism": "banded"}},
    "blt": {"privacy": {**PRIVACY, "mechanism": BUFFERS}},
    "adaptive": {"privacy": {**PRIVACY, "clip": {"kind": "adaptive", "count_std": 2.0}}},
    "dp_sgd": {"client": {"lr": 1.0, "batch": "full", "steps": 1, "dp_sgd": DP_SGD}},
    "local_gaussian": {"wire": [{"kind": "local_gaussian", **LOCAL, "delta": 1e-5}]},
    "local_laplace": {"wire": [{"kind": "local_laplace", **LOCAL}]},
}


def honest(quick: bool) -> Figure:
    """Measure ε and banners."""
    settings = 8 if quick else SETTINGS
    below, lowest, highest = epsilons(settings)
    names = list(NOISED)[: 2 if quick else None]
    shown = sum(is_marked(scenario(name, data=BLOBS)) for name in names)
    plain = is_marked(scenario("plain", data=BLOBS))
    text = (
        f"ε of {settings} settings (clients by Poisson or all, samples of a client in batches "
        f"that are cut or not): {below} below dp-accounting's lower bound, {lowest:+.1e} to "
        f"{highest:+.1e} of itself from its upper bound; "
        f"banner on page and terminal of {shown} of {len(names)} private runs, and "
        f"{'on' if plain else 'not on'} those of a run without privacy"
    )
    met = below == 0 and max(-lowest, highest) < CLOSE and shown == len(names) and not plain
    return Figure(text, met)


def scenario(name: str, **changes: Any) -> dict[str, Any]:
    """Return a short private run, or one without privacy."""
    common = {
        "name": name,
        "rounds": 1,
        "data": {"clients": 4, "test": 0.0},
        "model": "logistic",
        "client": STANDING,
        "server": ["mean"],
    }
    return {**common, **NOISED.get(name, {}), **changes}


def epsilons(count: int) -> tuple[int, float, float]:
    """Compare ε with dp-accounting's, in random settings.

    Returns:
      How many are below its lower bound, and the least and the largest distance from its upper
      bound, as shares of it, or of 1 where it is less: its grid counts there.
    """
    from fedsim.fields.privacy.counting.samples import sample_epsilon_after

    rng = np.random.default_rng(20)
    below = 0
    distances = []
    for number in range(count):
        z = float(np.exp(rng.uniform(np.log(0.7), np.log(8))))
        q = float(np.exp(rng.uniform(np.log(0.005), np.log(0.5))))
        T = int(np.exp(rng.uniform(0, np.log(200))))
        delta = float(10 ** rng.uniform(-8, -3))
        samples = int(rng.integers(20, 500))
        kind = number % 4
        # No batch is cut, or some are.
        cap = max(int(1.5 * samples * q), 1) if kind == 3 else samples
        if kind < 2:
            cohort = "all" if kind else {"kind": "poisson", "rate": q}
            privacy = {"noise_multiplier": z, "delta": delta}
            found = fedsim.epsilon(privacy, cohort, clients=1000, rounds=T)
        else:
            found = sample_epsilon_after(
                T, noise_multiplier=z, samples=samples, rate=q, cap=cap, delta=delta
            )
        # A bound that is cut spends no less than one that is not.
        rate = 1.0 if kind == 1 else q
        least = of_dp_accounting(gaussian(z, rate, pessimistic=False), T, delta)
        most = of_dp_accounting(gaussian(z, rate, pessimistic=True), T, delta)
        if kind == 3:
            cut = pld.from_truncated_subsampled_gaussian_mechanism(samples, q, cap, z, INTERVAL)
            most = of_dp_accounting(cut, T, delta)
        below += found < least - ROUNDING
        distances.append((found - most) / max(most, 1.0))
    return below, min(distances), max(distances)


def gaussian(z: float, rate: float, pessimistic: bool) -> pld.PrivacyLossDistribution:
    """Return the losses of one release, rounded up or down."""
    return pld.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        value_discretization_interval=INTERVAL,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
    )


def of_dp_accounting(release: pld.PrivacyLossDistribution, T: int, delta: float) -> float:
    """Return ε of T releases."""
    return release.self_compose(T).get_epsilon_for_delta(delta)


def is_marked(values: dict[str, Any]) -> bool:
    """Whether page and terminal of a run have the mark."""
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(yaml.safe_dump(values))
        out = Path(folder) / "run"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            command(["run", str(path), "--out", str(out)])
        page = (out / "report.html").read_text()
        return MARK in printed.getvalue() and MARK in page
