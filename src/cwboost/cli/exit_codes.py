"""The exit codes of the command line. Wrong usage is 2, the code of argparse."""

SUCCESS, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 130, 141
