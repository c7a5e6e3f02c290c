"""The command line `cwboost`."""
