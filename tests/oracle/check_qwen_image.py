"""Makes the committed Qwen-Image oracle again and compares: `check_qwen_image.py`. See oracle_checker.py."""

import sys

import oracle_checker

if __name__ == "__main__":
    sys.exit(oracle_checker.main("qwen_image"))
