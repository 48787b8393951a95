"""The commands `inbox store …`: maintenance of a whole store.

`cli/inbox/spec.py` lists them. It calls the package `maintenance`, and must not know SQL or what is kept.
"""
