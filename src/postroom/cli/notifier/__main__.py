"""`python -m postroom.cli.notifier`."""

from __future__ import annotations

from postroom.cli.notifier import main

if __name__ == "__main__":
    main()
