"""Integers whose annotation has no upper bound, and why they need none; see `hostile.integers`."""

COUNTED = "what it makes is counted in bytes before it is made: refused"
COMPARED = "it is compared with what the data, the cohort, the fleet or the model has: refused"
CAPPED = "no more than there is are taken: accepted"
COUNTER = "a counter, or another number, is compared with it, and nothing is made of it: accepted"
SEED = "it starts a generator: accepted"
REASONS = {  # why they need no bound -> the integers
    COUNTED: """
        dataset: fcube.samples fcube.test_samples synthetic.clients synthetic.multiple
        leaf_synthetic.classes leaf_synthetic.features leaf_synthetic.clients gaussian_blobs.shape
        gaussian_blobs.classes gaussian_blobs.samples linear_regression.features
        linear_regression.samples linear_regression.clients quadratics.features quadratics.clients
        fedexp_regression.features fedexp_regression.samples fedexp_regression.clients
        femnist_shaped.clients femnist_shaped.classes femnist_shaped.pixels
        shakespeare_shaped.clients
        model: mlp.hidden char_gru.embedding char_gru.width char_lstm.embedding char_lstm.width
        cnn.channels cnn.hidden
        adapter: bottleneck.size prompt.tokens vera.rank
        cohort: weighted.size clustered.size
        rule: fldetector.window
        codec: count_sketch.rows count_sketch.columns
        section: data.clients client.steps client.epochs numerics.lanes numerics.block
        scenario.rounds
    """,
    COMPARED: """
        dataset: xlsx.sheet
        partition: quantity.min_samples dirichlet.min_samples dirichlet_client.min_samples
        shards.per_client pathological.classes domains.values semantic.clusters
        extended_dirichlet.classes
        skew: concept_shift.groups
        data_attack: label_flip.source label_flip.target edge_case.source edge_case.target
        backdoor.target backdoor.size distributed_backdoor.target distributed_backdoor.size
        distributed_backdoor.gap
        augmentation: crop.padding
        metric: auc.positive average_precision.positive f1.positive precision.positive
        recall.positive specificity.positive top_k.k
        model: cnn.kernel resnet.groups transformer.heads transformer.width
        adapter: lora.rank dora.rank dual_lora.rank
        cohort: uniform.size cyclic.size listed.rounds power_of_choice.size
        power_of_choice.candidates round_robin_by_class.size divfl.size divfl.candidates
        fedcs.candidates fedcs.size importance.size least_participated.size oort.size tifl.size
        separated.size separated.gap separated.most cyclic_poisson.groups
        rule: trimmed_mean.trim krum.f krum.neighbours multi_krum.f multi_krum.select
        multi_krum.neighbours mean_around_median.f phocas.f bulyan.f minimum_diameter.f
        smallest_eigenvalue.f covariance_filter.f divide_and_conquer.f monna.f zeno.f
        hierarchical.groups
        stage: mix_neighbours.f adaptive_robust_clip.f
        schedule: warmup_cosine_decay_schedule.warmup_steps
        mechanism: distributed_skellam.shares distributed_skellam.dimension
        distributed_discrete_gaussian.shares distributed_discrete_gaussian.dimension
        timetable: fedbuff.concurrency fedasync.concurrency
        client: ifca.clusters hypcluster.clusters cfl.clusters fedgroup.clusters flexcfl.clusters
        method: ifca.clusters hypcluster.clusters cfl.clusters fedgroup.clusters flexcfl.clusters
        mechanism: distributed_skellam.shares distributed_skellam.dimension
        distributed_discrete_gaussian.shares distributed_discrete_gaussian.dimension
        topology: barabasi_albert.m grid.rows torus.rows listed.edges regular.degree
        watts_strogatz.k hierarchical.groups
        section: data.server.samples fleet.malicious fleet.malicious.count fleet.malicious.ids
        fleet.without checkpoint.keep Audit.canaries
    """,
    CAPPED: """
        dataset: leaf.vocabulary text.vocabulary tff_hdf5.vocabulary tff_hdf5.first_clients
        tff_hdf5.first_samples
        rule: divide_and_conquer.coordinates
        stage: bucket.size
        codec: count_sketch.k low_rank.rank qsgd.bucket top_k.k rand_k.k
        section: client.batch evaluate.clients DpSgd.cap DpSgd.microbatch
    """,
    COUNTER: """
        skew: concept_shift.every
        cohort: oort.most
        rule: fedau.cutoff robust_learning_rate.threshold monna.pivot
        attack: mimic.warmup
        mechanism: tree.restart
        topology: hierarchical.edge_rounds
        metric: ece.bins
        optimizer: adafactor.min_dim_size_to_factor adafactor.decay_offset
        schedule: cosine_decay_schedule.decay_steps exponential_decay.transition_steps
        exponential_decay.transition_begin linear_schedule.transition_steps
        linear_schedule.transition_begin polynomial_schedule.transition_steps
        polynomial_schedule.transition_begin warmup_constant_schedule.warmup_steps
        warmup_cosine_decay_schedule.decay_steps warmup_exponential_decay_schedule.warmup_steps
        warmup_exponential_decay_schedule.transition_steps
        warmup_exponential_decay_schedule.transition_begin
        timetable: fedbuff.threshold fedasync.threshold semi_sync.threshold
        availability: label_dependent.period lognormal.period
        method: fedau.cutoff
        section: evaluate.every evaluate.last checkpoint.rounds topology.every topology.redraw
    """,
    SEED: """
        dataset: fcube.seed synthetic.seed leaf_synthetic.seed gaussian_blobs.seed
        linear_regression.seed quadratics.seed fedexp_regression.seed femnist_shaped.seed
        shakespeare_shaped.seed
        adapter: vera.seed
        codec: count_sketch.seed
        section: data.seed scenario.seeds
    """,
}


def reasons() -> dict[str, str]:
    """Place of an integer -> why it needs no bound of its own."""
    by_place = {}
    for reason, text in REASONS.items():
        family = ""
        for word in text.split():
            if word.endswith(":"):
                family = word
            else:
                by_place[f"{family} {word}"] = reason
    return by_place
