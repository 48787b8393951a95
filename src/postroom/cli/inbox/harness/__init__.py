"""Commands for programs in which agents run: what waits for an agent, hooks, and the connection of each program.

`cli/inbox/spec.py` lists its commands. The hooks that `inbox harness connect` writes call them. It calls verbs of `people`, and must not
know SQL, the rules of a room, or the server.
"""
