"""Every method and every rule once more, in plain NumPy float64, written from the papers' equations.

Only `scenarios.py`, which writes the same runs for fedsim, knows of fedsim and JAX: models are flat vectors, a
round is a loop over clients, a client's training is a loop over steps.

Conventions that the papers leave open, and that both sides follow:

- N is the number of clients that can take part, i.e. those with samples, and n all their samples together.
- Means are over the clients of the round that have samples. A round of which nobody has any changes nothing.
- The server's tail gets the rule's aggregate: x ← x + tail(aggregate). Server states of the method itself (c, h, d, m) do
  not see the tail.
- K_i local steps may differ between clients; where an equation says 1/(K η), it is the client's own K_i.
- Optimizers on the clients are heavy-ball momentum, v ← ρ v + g + λ y, y ← y − η v, with v = 0 at the start of each round.
"""
