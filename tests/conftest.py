"""Settings of all tests: Hypothesis examples have no deadline, because machines may be busy, and
Ctrl-C interrupts the tests even if the parent process ignores SIGINT."""

import signal

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
signal.signal(signal.SIGINT, signal.default_int_handler)
