"""The two demonstrations: `inbox demo` (story.py) and `inbox serve --demo` (team.py).

The commands of the same names call them. Their actors are real processes that use the public library only, and must not know anything
below it.
"""
