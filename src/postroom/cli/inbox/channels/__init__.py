"""The commands `inbox channel …`: add, list, show, remove, test, run, receive. Only `run` and `test` send anything."""
