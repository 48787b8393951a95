"""Work on a whole store below the rooms: erasing of texts, export and import of rows, free pages. The package `maintenance` calls it."""
