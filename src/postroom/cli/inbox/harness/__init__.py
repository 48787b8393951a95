"""Commands for programs in which agents run: what waits for an agent, hooks, and the connection of each program."""
