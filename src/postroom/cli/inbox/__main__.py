"""`python -m postroom.cli.inbox`."""

from __future__ import annotations

from postroom.cli.inbox import main

if __name__ == "__main__":
    main()
