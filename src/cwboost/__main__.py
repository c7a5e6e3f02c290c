"""Runs the command line: `python -m cwboost`."""

import sys

from cwboost.cli.main import main

sys.exit(main())
