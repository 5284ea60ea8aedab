"""Client methods that keep state for every client, each after its paper's algorithm."""

from reference.clients import Client


class Scaffold(Client):
    """Karimireddy et al. 2020, Algorithm 1; c and all c_i start at 0."""

    option = 2

    def start_run(self):
        self.c, self.c_i = self.nothing, self.zero()

    def start_round(self, S, x):
        self.changes = []

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.c_i[i] + self.c

    def update(self, i, x):
        y = self.trained(i, x)
        new = (
            self.gradient(i, x)
            if self.option == 1
            else self.c_i[i] - self.c + (x - y) / self.horizon(i)
        )
        self.changes.append(new - self.c_i[i])
        self.c_i[i] = new
        return y - x

    def finish_round(self, round):
        self.c = self.c + sum(self.changes) / round.N

    def server(self):
        return {"c": self.c}

    def memory(self, i):
        return {"c_i": self.c_i[i]}


class ScaffoldI(Scaffold):
    option = 1


class FedDyn(Client):
    """Acar et al. 2021, Algorithm 1, with gradient steps; all g_i start at 0.

    The steps are on f_i(θ) − ⟨g_i, θ⟩ + α/2 ‖θ − x‖².
    """

    alpha = 0.4

    def start_run(self):
        self.g_i = self.zero()

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.g_i[i] + self.alpha * (y - x)

    def update(self, i, x):
        y = self.trained(i, x)
        self.g_i[i] = self.g_i[i] - self.alpha * (y - x)
        return y - x

    def memory(self, i):
        return {"g_i": self.g_i[i]}


class FedDC(Client):
    """Gao et al. 2022, Algorithm 1, with gradient steps; g is the mean of all g_i.

    L = f_i(θ) + α/2 ‖θ + h_i − x‖² + ⟨θ, g_i − g⟩/(η K); then h_i ← h_i + θ − x and g_i ← θ − x;
    x ← mean of θ + h_i; g ← g + (1/N) Σ of the changes of g_i.
    """

    alpha = 0.3

    def start_run(self):
        self.h, self.g_i, self.g = self.zero(), self.zero(), self.nothing

    def start_round(self, S, x):
        self.changes = []

    def direction(self, i, y, x):
        turn = (self.g_i[i] - self.g) / self.horizon(i)
        return self.gradient(i, y) + self.alpha * (y + self.h[i] - x) + turn

    def update(self, i, x):
        y = self.trained(i, x)
        self.h[i] = self.h[i] + y - x
        self.changes.append(y - x - self.g_i[i])
        self.g_i[i] = y - x
        return y + self.h[i] - x

    def finish_round(self, round):
        self.g = self.g + sum(self.changes) / round.N

    def server(self):
        return {"g": self.g}

    def memory(self, i):
        return {"h": self.h[i], "g": self.g_i[i]}


class FedADMM(Client):
    """Gong, Li, Freris 2022, Algorithm 1: all clients start the run with y_i = x_0 and λ_i = 0.

    Steps on f_i(y) + ⟨λ_i, y − x⟩ + ρ/2 ‖y − x‖² from y = x; λ_i ← λ_i + ρ (y − x).
    Sends the change of y_i + λ_i/ρ.
    """

    rho = 0.5

    def start_run(self):
        self.y, self.dual = dict.fromkeys(self.problem.able, self.problem.start), self.zero()

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.dual[i] + self.rho * (y - x)

    def update(self, i, x):
        before = self.y[i] + self.dual[i] / self.rho
        self.y[i] = self.trained(i, x)
        self.dual[i] = self.dual[i] + self.rho * (self.y[i] - x)
        return self.y[i] + self.dual[i] / self.rho - before

    def memory(self, i):
        return {"y": self.y[i], "dual": self.dual[i]}


class Scaffnew(Client):
    """Mishchenko et al. 2022 (ProxSkip), Algorithm 2, with K steps between communications: p = 1/K.

    y ← y − η (∇f_i(y) − h_i); h_i ← h_i + (x_new − y)/(K η). A client gets x_new when it next takes
    part.
    """

    def start_run(self):
        self.h, self.sent = self.zero(), {}

    def start_round(self, S, x):
        for i in set(S) & set(self.sent):
            self.h[i] = self.h[i] + (x - self.sent[i]) / self.horizon(i)

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.h[i]

    def update(self, i, x):
        self.sent[i] = self.trained(i, x)
        return self.sent[i] - x

    def memory(self, i):
        return {"h": self.h[i], "y": self.sent[i]}


class WorkerMomentum(Client):
    """Karimireddy et al. 2021: sends m_i ← β m_i + (1 − β) (y − x)."""

    beta = 0.7

    def start_run(self):
        self.m = self.zero()

    def update(self, i, x):
        self.m[i] = self.beta * self.m[i] + (1 - self.beta) * (self.trained(i, x) - x)
        return self.m[i]

    def memory(self, i):
        return {"m": self.m[i]}
