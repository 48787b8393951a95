"""`python -m postroom.cli.thread`."""

from __future__ import annotations

from postroom.cli.thread import main

if __name__ == "__main__":
    main()
