"""How models do: the server's on samples that nobody trains on, and every client's on its own."""
