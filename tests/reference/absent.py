"""Rules that account for absent clients, each after its paper."""

import numpy as np

from reference.rules import Rule


class Mifa(Rule):
    """Gu et al. 2021, Algorithm 1: G_i ← Δ_i of those present; (1/N) Σ G_i over all clients.

    A round in which nobody is present also has this aggregate.
    """

    min_clients = 0

    def __init__(self, x, able):
        super().__init__(x, able)
        self.last = {i: np.zeros_like(x) for i in able}

    def reduce(self, round):
        self.last |= dict(zip(round.clients, round.updates, strict=True))
        return sum(self.last.values()) / round.N

    def server(self):
        return {"sum_of_last": sum(self.last.values())}


class FedVARP(Mifa):
    """Jhunjhunwala et al. 2022: v = mean_S (Δ_i − y_i) + mean over all y_j; then y_i ← Δ_i."""

    min_clients = 1

    def reduce(self, round):
        before = sum(self.last.values()) / round.N
        changes = [
            update - self.last[i] for i, update in zip(round.clients, round.updates, strict=True)
        ]
        super().reduce(round)
        return sum(changes) / len(changes) + before


class FedAU(Rule):
    """Wang and Ji 2024, Algorithms 1 and 2: every client's ω in every round, present or absent."""

    cutoff: int | None = 50

    def __init__(self, x, able):
        super().__init__(x, able)
        self.rounds = 0  # whose participation is in the weights
        self.omega, self.M, self.S = (dict.fromkeys(able, value) for value in (1.0, 0, 0))
        self.there: dict[int, list[int]] = {}  # clients of a round

    def reduce(self, round):
        self.there[round.number] = round.clients
        for r in range(self.rounds + 1, round.number):
            self.see(self.there.get(r, []))
        self.rounds = round.number - 1
        return (
            sum(
                self.omega[i] * update
                for i, update in zip(round.clients, round.updates, strict=True)
            )
            / round.N
        )

    def see(self, there):
        for i in self.omega:
            self.S[i] += 1
            if i in there or self.S[i] == self.cutoff:
                total = self.omega[i] * self.M[i] + self.S[i]
                self.M[i] += 1
                self.omega[i], self.S[i] = total / self.M[i], 0


class FedAUShort(FedAU):
    cutoff = 2
