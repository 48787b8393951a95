"""`python -m postroom.cli.mailbox`."""

from __future__ import annotations

from postroom.cli.mailbox import main

if __name__ == "__main__":
    main()
