"""Every method and every rule again, in plain NumPy float64, from the papers' equations.

Only `scenarios.py`, which writes the same runs for fedsim, imports fedsim and JAX. Here models are
flat vectors, a round is a loop over clients, and a client's training is a loop over steps.

Conventions that the papers leave open, and that both sides follow:

- N is the number of clients that can take part, i.e. those with samples; n is the total number of
  their samples.
- Means are over the clients of the round that have samples. If none has, the round changes nothing.
- The server's tail gets the rule's aggregate: x ← x + tail(aggregate). Server states of the method
  itself (c, h, d, m) do not see the tail.
- K_i local steps may differ between clients; 1/(K η) in an equation has the client's K_i.
- Optimizers on the clients are heavy-ball momentum, v ← ρ v + g + λ y, y ← y − η v, with v = 0 at
  the start of each round.
"""
