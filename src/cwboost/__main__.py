"""`python -m cwboost` is the command line. Knows nothing but where it is."""

import sys

from .cli import main

sys.exit(main())
