"""The graph of a run without a server: which nodes hear which in a round, and by what weight."""

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from fedsim.errors import TopologyError
from fedsim.fields.graphs.topology import (
    Draw,
    EdgeTable,
    MixingMatrix,
    Topology,
    Weights,
    mixing_of,
    neighbourhoods_of,
    require_connected,
    shape_of,
    table_of,
    without,
)
from fedsim.fields.graphs.topology.graphs import Edges
from fedsim.fleet import Plan, RoundPlan
from fedsim.fleet.streams import Stream, generator

CACHED_GRAPHS = 64


class NetworkSettings(NamedTuple):
    """The section `topology` of a scenario, the same for all seeds.

    Attributes:
      weights: of a graph whose edges are undirected; None: edges are directed.
      every: rounds from one mixing to the next.
      redraw: rounds after which a random graph is drawn again; None: never.
      by_rule: whether a rule looks at what a node hears.
    """

    topology: Topology
    weights: Weights | None
    every: int = 1
    redraw: int | None = None
    fail: float = 0.0
    by_rule: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether edges are undirected."""
        return self.weights is not None


class Network:
    """The graphs of one seed."""

    def __init__(self, settings: NetworkSettings, nodes: int, seed: int, rounds: int):
        self.settings = settings
        self.nodes = nodes
        self.seed = seed
        self.rounds = rounds
        self._matrix = lru_cache(CACHED_GRAPHS)(self._matrix_of_graph)

    def require_usable(self) -> None:
        """Refuse graphs over which nodes never agree.

        Raises:
          TopologyError: for a kind that does not fit the nodes, or graphs that are not connected.
        """
        settings = self.settings
        if settings.redraw is not None and not settings.topology.random:
            text = "draws random graphs again, and this kind has one graph"
            raise TopologyError("redraw", f"{text}; remove it, or use erdos_renyi or regular")
        edges = np.concatenate([self._edges(number) for number in self._numbers()])
        require_connected(edges, self.nodes)
        self._matrix(0)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of a table that holds every graph of the run."""
        shapes = np.array([shape_of(self._matrix(number)) for number in self._numbers()])
        rows, columns = shapes.max(axis=0)
        return int(rows), int(columns)

    def mixes(self, r: int) -> bool:
        """Return whether nodes mix in a round."""
        return r % self.settings.every == 0

    def mixing(self, r: int, active: Bool[np.ndarray, " n"] | None = None) -> MixingMatrix:
        """Return the mixing matrix of a round, with edges that are down and nodes that are away.

        Args:
          r: the round, from 1.
          active: which nodes take part; None: all.
        """
        matrix = self._matrix(self._number(r))
        if not self.mixes(r):
            return without(matrix, np.ones(len(matrix.source), bool))
        lost = self._down(r, matrix)
        if active is not None:
            lost |= ~(active[matrix.source] & active[matrix.target])
        return without(matrix, lost) if lost.any() else matrix

    def table(self, r: int, active: Bool[np.ndarray, " n"], dtype: np.dtype) -> EdgeTable:
        """Return the mixing of a round as the device takes it; arguments as of `mixing`."""
        matrix = self.mixing(r, active)
        table = table_of(matrix, active, self.shape, dtype, mixes=self.mixes(r))
        if self.settings.by_rule:
            table = table._replace(near=neighbourhoods_of(matrix, self.shape[0], dtype))
        return table

    def traffic(self, r: int, active: Bool[np.ndarray, " n"]) -> np.ndarray:
        """Return the edges over which nodes send in a round `[E, 2]`; arguments as of `mixing`."""
        matrix = self.mixing(r, active)
        used = matrix.weight > 0
        return np.stack([matrix.source[used], matrix.target[used]], axis=1)

    @property
    def first(self) -> MixingMatrix:
        """The mixing matrix of the first graph, whose edges all work."""
        return self._matrix(0)

    @property
    def heard(self) -> np.ndarray:
        """How many nodes each one hears in the first graph `[n]`."""
        return np.bincount(self.first.target, minlength=self.nodes)

    @property
    def hearers(self) -> np.ndarray:
        """By how many nodes each one is heard in the first graph `[n]`."""
        return np.bincount(self.first.source, minlength=self.nodes)

    @property
    def balanced(self) -> bool:
        """Whether the rows of all graphs' matrices add up to one, as their columns do."""
        for number in self._numbers():
            matrix = self._matrix(number)
            rows = matrix.own + np.bincount(matrix.target, matrix.weight, self.nodes)
            if not np.allclose(rows, 1):
                return False
        return True

    def next_start(self, r: int, active: Bool[np.ndarray, " n"], done: np.ndarray) -> np.ndarray:
        """Return when each node can begin its next round, in seconds `[n]`.

        A node waits until all whom it hears have sent.
        """
        source, target = self.traffic(r, active).T
        start = done.copy()
        np.maximum.at(start, target, done[source])
        return start

    def _number(self, r: int) -> int:
        """Return the number of the graph of a round."""
        period = self.settings.topology.period
        if period is not None:
            return (r - 1) % period(self.nodes)
        if self.settings.redraw is not None:
            return (r - 1) // self.settings.redraw
        return 0

    def _numbers(self) -> range:
        """Return the numbers of all graphs of the run."""
        period = self.settings.topology.period
        if period is not None:
            return range(period(self.nodes))
        return range(self._number(max(self.rounds, 1)) + 1)

    def _edges(self, number: int) -> Edges:
        draw = Draw(
            nodes=self.nodes,
            directed=self.settings.weights is None,
            round=number,
            rng=generator(self.seed, Stream.TOPOLOGY, number),
        )
        return self.settings.topology.edges(draw)

    def _matrix_of_graph(self, number: int) -> MixingMatrix:
        return mixing_of(self._edges(number), self.nodes, self.settings.weights)

    def _down(self, r: int, matrix: MixingMatrix) -> Bool[np.ndarray, " E"]:
        """Return which edges are down in a round, undirected ones in both directions."""
        if not self.settings.fail:
            return np.zeros(len(matrix.source), bool)
        ends = np.stack([matrix.source, matrix.target], axis=1)
        if self.settings.symmetric:
            ends = np.sort(ends, axis=1)
        edges, edge_of_link = np.unique(ends, axis=0, return_inverse=True)
        down = generator(self.seed, Stream.LINKS_DOWN, r).random(len(edges)) < self.settings.fail
        return down[edge_of_link.ravel()]


def active_nodes(plan: Plan, work: RoundPlan) -> np.ndarray:
    """Return which nodes of a graph take part in a round `[N]`.

    A node without samples hands on what it hears.
    """
    active = ~plan.present
    active[work.ids] = True
    return active
