"""Work on a whole store below the rooms: erasing of texts, export and import of rows, free pages.

The package `maintenance` calls it. It must not know the rules of a room, such as what may be removed.
"""
