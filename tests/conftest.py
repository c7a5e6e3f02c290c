"""What holds for all tests: no example of a property has to be quick, machines may be busy; and
Ctrl-C interrupts, also where whoever began the tests had it ignored."""

import signal

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
signal.signal(signal.SIGINT, signal.default_int_handler)
