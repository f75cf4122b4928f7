"""Makes the committed FLUX.1 oracle again and compares: `check_flux1.py`. See oracle_checker.py."""

import sys

import oracle_checker

if __name__ == "__main__":
    sys.exit(oracle_checker.main("flux1"))
