"""
Which columns are real?
=======================

Boosting chooses columns, and after enough iterations it chooses some that say nothing. Three ways
to keep them out: stability selection, which bounds how many get in by chance; probing, which stops
when a shuffled column wins; and deselection, which drops what brought next to nothing.
"""

# %%
# Patients, and columns of noise
# ------------------------------
#
# The diabetes data: 442 patients, ten measurements, and the progression of the disease a year
# later. We add forty columns of noise, so that of four fifths of the table we know that it says
# nothing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import cwboost as cb

data = load_diabetes(scaled=False)
table = dict(zip(data.feature_names, data.data.T, strict=True))
rng = np.random.default_rng(1)
table |= {f"noise {k}": rng.normal(size=len(data.target)) for k in range(1, 41)}

model = cb.fit(table, data.target, n_iter=1000, validation=0.25)
chosen = set(model.choices[: model.best_iteration])
print(f"early stopping: {len(chosen)} columns, {sum('noise' in name for name in chosen)} of noise")

# %%
# Stability selection
# -------------------
#
# A hundred fits to halves of the rows; each ends when it has chosen q columns. Selected are those
# that 75% of the fits agree on. How large q may be follows from the number of columns that may get
# in by chance, one on average.

found = cb.stability(table, data.target, cutoff=0.75, pfer=1)
print(found.summary())

# %%
# Columns of noise are chosen by some fits each, not by most. (The bound is one on average: of eight
# draws of the noise, one had a column that got in.)

found.plot(max_names=14)
plt.show()

# %%
# When did the fits choose them? The body mass index and s5 come at once; the noise has no time at
# which it comes.

found.plot(kind="path")
plt.show()

# %%
# The same fits can be judged by another cutoff, without fitting anew.

for cutoff in (0.6, 0.75, 0.9):
    other = found.with_cutoff(cutoff)
    print(f"cutoff {cutoff}: at most {other.pfer:.2f} by chance, selected {other.selected}")

# %%
# Probing
# -------
#
# Every column gets a shadow, itself with its rows shuffled. The fit ends when a shadow is chosen.
# That costs as much as one fit, gives a model at once, and bounds nothing: shadows come sooner in
# some shuffles than in others, so twenty are drawn.

probed = cb.probe(table, data.target, repeats=20)
print(probed.table())

# %%
# Deselection
# -----------
#
# The model of the beginning, without the columns that brought less than one percent of the fall of
# the risk.

small = cb.deselect(model, table, data.target)
print(small.summary())

# %%
# Of all four, the columns of noise:

ways = {
    "early stopping": chosen,
    "stability selection": found.selected,
    "probing": probed.selected,
    "deselection": small.terms,
}
for way, names in ways.items():
    print(f"{way:<20} {len(names):3} columns, {sum('noise' in name for name in names):2} of noise")
