"""`python -m cwboost` is the command line. Knows nothing but where it is."""

import sys

from cwboost.cli.main import main

sys.exit(main())
