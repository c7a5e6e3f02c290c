"""The same fit on rows that are spread over several processes or machines; only sums travel.

A `Shard` is the rows of one process. Classes named `Sharded...` are the client's view of all of
them.
"""
