"""The fuzzer of cwboost: see run.py for what it does and how to use it."""
