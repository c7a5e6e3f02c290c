"""What holds for all tests: no example of a property has to be quick, machines may be busy."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
