"""How fast, how large and how right: cwboost beside other libraries, and beside itself.

    python -m benchmarks              rivals on problems, a process for every fit
    python -m benchmarks table DIR    the table and the figure of the results in DIR
    python -m benchmarks targets      the figures that the project holds itself to
    python -m benchmarks scale DIR    rows that need not fit into memory
    python -m benchmarks history      a small set of figures per commit

The other scripts of this folder are run by their path and stand alone.
"""
