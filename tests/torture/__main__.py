"""`python -m tests.torture [--seconds 60] [--engine ENGINE] [--seed N]`: disturb, then prove. Exits with 1 if a promise is broken."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from random import SystemRandom

from tests.torture.planted import FAULTS, plant
from tests.torture.run import print_reports, torture
from tests.torture.stage import POSTGRES, SQLITE


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--seconds", type=float, default=60, help="how long each engine is disturbed")
    parser.add_argument("--engine", choices=(SQLITE, POSTGRES), action="append")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--keep", action="store_true", help="keep the folder with the store and the histories")
    parser.add_argument("--plant", choices=sorted(FAULTS), help="break a promise on purpose, to see that the checker notices")
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="postroom-torture-"))
    with plant(args.plant) if args.plant else nullcontext():
        reports = [torture(engine, folder / engine, seconds=args.seconds, seed=args.seed) for engine in args.engine or (SQLITE, POSTGRES)]
    print_reports(reports, args.seed)
    broken = any(report.violations for report in reports)
    if broken or args.keep:
        print(f"The stores and the histories are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
