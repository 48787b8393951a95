"""Values that every package uses: records, refusals, checks, the clock, ids, and the declaration of verbs.

Every other package imports this one. It must not know SQL, rooms, the server or the command line.
"""
