"""
Which columns are real?
=======================

Boosting selects columns, and after enough iterations it selects some without an effect. Three
methods keep them out: stability selection, which bounds how many get in by chance; probing, which
stops when a shuffled column is chosen; and deselection, which drops terms that held-out rows do not
need.
"""

# %%
# Patients, and columns of noise
# ------------------------------
#
# The diabetes data: 442 patients, ten measurements, and the progression of the disease a year
# later. We add forty noise columns, so four fifths of the columns are known to have no effect.

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
# A hundred fits to halves of the rows; each ends when it has chosen q columns. A column is selected
# if 75% of the fits chose it. The value of q follows from the number of columns that may be
# selected by chance, one on average.

found = cb.stability(table, data.target, cutoff=0.75, pfer=1)
print(found.summary())

# %%
# Every noise column is chosen by some fits, but not by most. (The bound is one on average: in one
# of eight draws of the noise, a noise column was selected.)

found.plot(max_names=14)
plt.show()

# %%
# When did the fits choose them? The body mass index and s5 are chosen at once; noise columns are
# chosen at any time.

found.plot(kind="path")
plt.show()

# %%
# The same fits can be evaluated at another cutoff, without fitting again.

for cutoff in (0.6, 0.75, 0.9):
    other = found.with_cutoff(cutoff)
    print(f"cutoff {cutoff}: at most {other.pfer:.2f} by chance, selected {other.selected}")

# %%
# Probing
# -------
#
# Every column gets a shadow, a copy with its rows shuffled. The fit ends when a shadow is chosen.
# This costs as much as one fit and gives a model at once, but does not bound an error rate. Shadows
# are chosen sooner in some shuffles than in others, so twenty shuffles are drawn.

probed = cb.probe(table, data.target, repeats=20)
print(probed.table())

# %%
# Deselection
# -----------
#
# The first model, without the columns that do not lower the risk of held-out rows.

small = cb.deselect(model, table, data.target)
print(small.summary())

# %%
# The number of noise columns selected by all four methods:

ways = {
    "early stopping": chosen,
    "stability selection": found.selected,
    "probing": probed.selected,
    "deselection": small.terms,
}
for way, names in ways.items():
    print(f"{way:<20} {len(names):3} columns, {sum('noise' in name for name in names):2} of noise")
