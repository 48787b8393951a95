"""Access to a server: passes.py holds the sign-in links, sessions and tokens, tokens.py makes them, workspaces.py the folders of agents.

The verbs of `postroom.people` are the interface, and `server/http/auth.py` asks them. These modules know nothing of cookies or headers.
"""
