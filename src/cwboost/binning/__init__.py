"""From columns to bins: binning rules, column summaries, index sets and moments.

Does not know about learners or bases (see `cwboost.terms`).
"""
