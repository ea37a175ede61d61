"""`python -m holdpoint`: becomes the program, so that signals and exit codes are its own."""

import os
import sys

from holdpoint import find_holdpoint_bin

try:
    binary = find_holdpoint_bin()
except FileNotFoundError as missing:
    sys.exit(f"holdpoint: {missing}")
os.execv(binary, [binary, *sys.argv[1:]])
