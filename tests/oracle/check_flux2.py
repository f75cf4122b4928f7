"""Makes the committed FLUX.2 oracle again and compares: `check_flux2.py`. See oracle_checker.py."""

import sys

import oracle_checker

if __name__ == "__main__":
    sys.exit(oracle_checker.main("flux2"))
