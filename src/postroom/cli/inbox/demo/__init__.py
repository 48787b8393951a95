"""The two demonstrations: `inbox demo` (story.py) and `inbox serve --demo` (team.py).

Their actors are real processes that use the public library only.
"""
