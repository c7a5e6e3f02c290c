"""
Which columns act together
==========================

Two of ten pairs of columns interact. The fit finds them, fits them without their main effects, and
plots them.
"""

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(0)
n = 4000
table = {name: rng.uniform(-1, 1, n) for name in ("age", "dose", "weight", "noise")}
table["ward"] = rng.choice(["a", "b", "c"], n)
y = np.sin(3 * table["age"]) + 2 * table["dose"] * table["weight"]
y += np.where(table["ward"] == "a", table["age"], 0.0) + rng.normal(0, 0.5, n)

# %%
# "auto" selects the pairs whose gain on the residuals of the main effects exceeds the gain of
# noise.

model = cb.fit(table, y, interactions="auto", validation=0.2, n_iter=500)
model.plot(kind="interactions")
plt.show()

# %%
# The effect of the product of dose and weight is entirely in the pair: neither column has a main
# effect.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
model.plot("dose:weight", ax=axes[0])
model.plot("dose", ax=axes[1])
plt.show()
