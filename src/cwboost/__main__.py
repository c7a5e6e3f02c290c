"""Runs the command line: `python -m cwboost`."""

import sys

from cwboost.cli.entry import run

sys.exit(run())
