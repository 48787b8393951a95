"""The commands `inbox channel …`: add, list, show, remove, test, run, receive. Only `run` and `test` send anything.

`cli/inbox/spec.py` lists them. It calls the verbs of `people.channels` and starts the loop of `outbound`. It must not know
SQL, or how a message is sent.
"""
