"""Benchmarks: speed, memory and accuracy of cwboost, compared with other libraries and its own
past.

    python -m benchmarks              libraries on problems, a process for every fit
    python -m benchmarks table DIR    the table and the figure of the results in DIR
    python -m benchmarks targets      the performance targets of the project
    python -m benchmarks quality DIR  predictions on real tables
    python -m benchmarks recover      errors of known functions
    python -m benchmarks scale DIR    rows that need not fit into memory
    python -m benchmarks history      a small set of figures per commit

The other scripts of this folder are independent and are run by their path.
"""
