"""`make torture`: many processes use a store at once while a disturber breaks what it can, and a checker proves the promises.

`actors` write a history of what they called and what they were told. `checker` knows only these histories and the rows of the store.
"""
