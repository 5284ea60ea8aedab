"""The decorators of the families, for fedsim's kinds and those of plug-ins.

All of them raise a RegistrationError for a parameter without annotation, or a name that another
module has taken.
"""

from fedsim.kinds import F, register


def dataset(factory: F) -> F:
    """Decorator: samples of your own, as a kind of `data`.

    Example::

        @fedsim.dataset
        def coins(samples: int = 200, seed: int = 0):
            x = np.random.default_rng(seed).normal(size=(samples, 3))
            return fedsim.Arrays(x, (x[:, 0] > 0).astype(int))

    Args:
      factory: `(hyper-parameters) -> fedsim.Arrays`; its name is the kind, its annotated parameters
        are the keys that a scenario may set.

    Returns:
      The factory, unchanged.
    """
    return register("dataset", factory)


def partition(factory: F) -> F:
    """Decorator: your own assignment of samples to clients, as a kind of `data.partition`.

    Example::

        from fedsim.data import Parts

        @fedsim.partition
        def in_turn():
            def assign(pool, clients, rng):
                rows = [np.arange(k, len(pool.y), clients) for k in range(clients)]
                offsets = np.cumsum([0, *map(len, rows)])
                return Parts(np.concatenate(rows).astype(np.int32), offsets)

            return assign

    Args:
      factory: `(hyper-parameters) -> assign`, and `assign(pool, clients, rng) -> fedsim.data.Parts`
        puts every row of `pool.y` `[n]` into the list of one client (a row in none is nobody's).
        `rng` is a NumPy generator that the run's seed decides. `pool.x`, `pool.scale` and
        `pool.columns` say more about the samples; `Parts.names` may name the clients.

    Returns:
      The factory, unchanged.
    """
    return register("partition", factory)


def skew(factory: F) -> F:
    """Decorator: your own difference between clients' samples, as a kind of `data.skew`.

    Example::

        from fedsim.data import Skew

        @fedsim.skew
        def dimmed(most: float = 0.5):
            def draw(clients, rng):
                return rng.uniform(0, most, clients)

            return Skew(draw, features=lambda x, share, rng: (1 - share) * x)

    Args:
      factory: `(hyper-parameters) -> fedsim.data.Skew`. Its `draw(clients, rng) -> numbers` `[N]`
        gives every client a number, and `features(x, number, rng) -> x` `[n, ...]`, or
        `labels(y, number, classes, rng) -> y` `[n]`, changes the samples of ONE client by it. A
        client whose number is 0 keeps its samples. The run's seed decides the NumPy generators,
        together with the client for `features` and `labels`. partition.csv lists the numbers.

    Returns:
      The factory, unchanged.
    """
    return register("skew", factory)


def data_attack(factory: F) -> F:
    """Decorator: your own attack on the samples of malicious clients, as a kind of `data.attack`.

    Example::

        from fedsim.data import Poison

        @fedsim.data_attack
        def whitened(value: float = 1.0, target: int = 0):
            def trigger(x):
                x = x.copy()
                x[:, 0] = value
                return x

            def samples(x, y, classes, place, rng):
                return trigger(x), np.full_like(y, target)

            return Poison(samples, trigger=trigger, target=target)

    Args:
      factory: `(hyper-parameters) -> fedsim.data.Poison`. Its
        `samples(x, y, classes, place, rng) -> (x, y)` replaces the training samples of ONE
        malicious client: features `[n, ...]` as a model reads them and labels `[n]`, of the same
        shapes. `place` is the client's position, 0, 1, ..., among the malicious clients with
        samples. The run's seed and the client decide the NumPy generator. With a `trigger(x) -> x`
        and a `target`, `attack_success` is a column of rounds.csv: how often the model takes
        triggered test samples of other labels for the target.

    Returns:
      The factory, unchanged.
    """
    return register("data_attack", factory)


def augmentation(factory: F) -> F:
    """Decorator: your own random change of training images, as a kind of `data.augment`.

    Example::

        @fedsim.augmentation
        def upside_down(probability: float = 0.5):
            def change(key, x):
                return jnp.where(jax.random.bernoulli(key, probability), x[::-1], x)

            return change

    Args:
      factory: `(hyper-parameters) -> change`, and `change(key, x) -> x` makes another image of ONE
        image `[height, width]` or `[height, width, channels]`, of the same shape and type, in JAX.
        Images are as they are stored, perhaps as bytes. Seed, round, client, local step and
        position in the batch decide the key.

    Returns:
      The factory, unchanged.
    """
    return register("augmentation", factory)


def model(factory: F) -> F:
    """Decorator: your own model, as a kind of `model`.

    Example::

        @fedsim.model
        def flat(scale: float = 1.0):
            def build(shape, outputs):
                init = lambda key: jax.random.normal(key, (*shape, outputs))
                return fedsim.as_model(init, lambda params, x: scale * x @ params)

            return build

    Args:
      factory: `(hyper-parameters) -> build`, and `build(shape, outputs) -> fedsim.types.Model`
        makes the model for the shape of one sample and the number of classes or targets. A model
        for tokens has `build(shape, outputs, tokens)`, which is called with `fedsim.models.Tokens`,
        or with None where samples are numbers. For a single run, `fedsim.run(..., model=)` is
        enough.

    Returns:
      The factory, unchanged.
    """
    return register("model", factory)


def loss(factory: F) -> F:
    """Decorator: your own loss, as a kind of `model.loss`.

    Example::

        @fedsim.loss
        def log_cosh(scale: float = 1.0):
            def of_rows(outputs, y):
                errors = (outputs - y.reshape(outputs.shape)) / scale
                return optax.losses.log_cosh(errors).sum(axis=1)

            return of_rows

    Args:
      factory: `(hyper-parameters) -> f`, and `f(outputs, y) -> losses` `[B]`, one for each row of a
        batch, of outputs `[B, ...]` and of labels or targets `[B, ...]`, in JAX. Or
        `(hyper-parameters) -> fedsim.types.Loss(f)`, whose other entries say which targets it is
        for, how many outputs the model has, and what they predict. For a single run,
        `fedsim.run(..., loss=f)` is enough.

    Returns:
      The factory, unchanged.
    """
    return register("loss", factory)


def cohort(factory: F) -> F:
    """Decorator: your own choice of a round's clients, as a kind of `cohort`.

    Example::

        from fedsim.fleet import Cohort

        @fedsim.cohort
        def largest(size: int = 5):
            def draw(population, round, rng):
                return population.ids[np.argsort(-population.samples, kind="stable")[:size]]

            return Cohort(draw, nominal=lambda clients: size)


        @fedsim.cohort
        def hardest(size: int = 5):
            def draw(population, round, rng):
                # A client that never took part has no loss.
                loss = np.nan_to_num(population.loss, nan=np.inf)
                return population.ids[np.argsort(-loss, kind="stable")[:size]]

            return Cohort(draw, nominal=lambda clients: size, needs=frozenset({"loss"}))

    Args:
      factory: `(hyper-parameters) -> fedsim.fleet.Cohort`. Its
        `draw(population, round, rng) -> ids` sees the ids and the sample counts of all clients that
        have samples, and a NumPy generator that seed and round decide. A cohort that `needs` `loss`
        also sees every client's mean loss over the batches of the last round in which it took part
        (NaN: it never did, +∞: no finite one), and draws at most `nominal` clients. A round is then
        drawn when the one before is over, and methods that are compared have different cohorts. In
        the same way, `norm` is the norm of the last update, and `sketch` 64 numbers for it. A
        cohort may also need `drawn` (how often each client was drawn, and when last), `seconds`
        (that a round takes it) and `labels` (its samples by class), which do not depend on the
        method. `fedsim.fleet.Drawn(ids, factor)` in place of ids lets clients count with factors.

    Returns:
      The factory, unchanged.
    """
    return register("cohort", factory)


def client(factory: F) -> F:
    """Decorator: your own local training, as a kind of `client`.

    Example::

        from fedsim.clients import sgd

        @fedsim.client
        def decayed(strength: float = 0.1):
            def gradient(task, variables, batch, local, shared, work):
                value, g = task.value_and_grad(variables, batch)
                return value, jax.tree.map(lambda g, y: g + strength * y, g, variables["params"])

            return sgd()._replace(gradient=gradient)

    Args:
      factory: `(hyper-parameters) -> fedsim.types.Client`: five hooks on one local loop, each
        written for ONE client; and, where clients do not share everything, which leaves travel and
        what a client's personal model is. `lr`, `batch`, `epochs` and the other keys that all
        clients have need no parameter.

    Returns:
      The factory, unchanged.
    """
    return register("client", factory)


def method(factory: F) -> F:
    """Decorator: a name for a client method, a rule and what follows it, as a `method`.

    Example::

        @fedsim.method
        def careful(strength: float = 0.1):
            return {"client": {"kind": "decayed", "strength": strength}, "server": ["midrange"]}

    Args:
      factory: `(hyper-parameters) -> {"client": {...}, "server": [...]}`, written as in a scenario;
        `client` may be left out. Other sections, such as `"broadcast": ["cast"]`, replace those of
        the file; a mapping replaces the keys that it has. `ranges = {"strength": "log(1e-3, 1)"}`
        beside it is what comparisons with `compare.ranges` tune.

    Returns:
      The factory, unchanged.
    """
    return register("method", factory)


def optimizer(factory: F) -> F:
    """Decorator: your own optimizer, as a kind of `client.optimizer` and, after the rule, `server`.

    Example::

        @fedsim.optimizer
        def signed(lr: float = 0.01):
            return optax.chain(optax.scale_by_sign(), optax.scale(-lr))

    Args:
      factory: `(lr, other hyper-parameters) -> optax.GradientTransformation`; optax's optimizers
        are kinds already.

    Returns:
      The factory, unchanged.
    """
    return register("optimizer", factory)


def schedule(factory: F) -> F:
    """Decorator: your own learning rate schedule, as a kind of `client.lr`.

    Args:
      factory: `(hyper-parameters) -> f`, and `f(count) -> learning rate`.
    """
    return register("schedule", factory)


def speed(factory: F) -> F:
    """Decorator: your own speeds of clients, as a kind of `fleet.speed`.

    Args:
      factory: `(hyper-parameters) -> draw`, and `draw(clients, rng) -> seconds` `[N]` of a local
        step, drawn once for a seed; `clients` has `N`, `samples` `[N]` and `labels` `[N, C]`.

    Returns:
      The factory, unchanged.
    """
    return register("speed", factory)


def link(factory: F) -> F:
    """Decorator: your own network links of clients, as a kind of `fleet.links`.

    Args:
      factory: `(hyper-parameters) -> draw`, and `draw(clients, rng) -> (down, up, latency)`, in
        bytes per second and seconds, drawn once for a seed.

    Returns:
      The factory, unchanged.
    """
    return register("link", factory)


def availability(factory: F) -> F:
    """Decorator: your own availability of clients, as a kind of `fleet.availability`.

    Args:
      factory: (hyper-parameters) -> who can be reached when, as `always` and others return it.

    Returns:
      The factory, unchanged.
    """
    return register("availability", factory)


def adapter(factory: F) -> F:
    """Decorator: small trained leaves next to frozen weights, as a kind of `model.adapter`.

    Args:
      factory: `(hyper-parameters) -> fedsim.types.Adapter`.
    """
    return register("adapter", factory)


def timetable(factory: F) -> F:
    """Decorator: your own choice of when the server steps, as a kind of `schedule`.

    Args:
      factory: `(hyper-parameters) -> fedsim.fleet.Timetable`.
    """
    return register("timetable", factory)


def topology(factory: F) -> F:
    """Decorator: your own graph of nodes that learn without a server, as a kind of `topology`.

    Args:
      factory: (hyper-parameters) -> a kind of graph, whose `links(draw)` are the pairs (from, to)
        of a graph of `draw.nodes` nodes.

    Returns:
      The factory, unchanged.
    """
    return register("topology", factory)
