"""Real programs of agents with a scripted model on this machine. `make test-harness` runs them; `make test` plays what was recorded."""
