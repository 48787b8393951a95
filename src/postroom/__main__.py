"""`python -m postroom`: the command `postroom`."""

from __future__ import annotations

from postroom.cli.front_door import main

if __name__ == "__main__":
    main()
