"""
Comparing models on one effect
==============================

Two models may predict equally well with different effects. Drawn in one plot, the effects show
where the models agree and where the data do not decide.
"""

# %%
# Three styles
# ------------
#
# Simulated rents: they rise with size up to a point, jump at the fifth floor, from which a lift is
# required, and depend on the quarter.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(2)
n = 3000
homes = {
    "size": rng.gamma(9, 9, n).round(),
    "floor": rng.integers(0, 10, n).astype(float),
    "quarter": rng.choice(["harbour", "hill", "old town", "station"], n, p=[0.1, 0.2, 0.3, 0.4]),
}
quarters = {"harbour": 180, "hill": 90, "old town": 0, "station": -80}
rent = 900 * np.tanh(homes["size"] / 90) + 150 * (homes["floor"] >= 5)
rent = rent + np.array([quarters[q] for q in homes["quarter"]]) + rng.normal(0, 120, n)

styles = ("linear", "smooth", "auto")
models = {style: cb.CWBRegressor(terms=style).fit(homes, rent) for style in styles}
for style, model in models.items():
    print(f"{style:8} R² on the training rows {model.score(homes, rent):.3f}")

# %%
# Lines cannot bend, and curves cannot jump; ``"auto"`` can do both.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
cb.ComparisonDisplay.from_estimators(
    models, "size", target="rent", labels={"size": "size (m²)"}, ax=axes[0]
)
cb.ComparisonDisplay.from_estimators(models, "floor", target="rent", ax=axes[1])
plt.show()

# %%
# A model and its correction
# --------------------------
#
# The same plot shows what an edit changed, here a discount that is required by law.

before = models["auto"].model_
after = before.edit("set_level", "quarter", level="harbour", effect=100.0)
cb.ComparisonDisplay.from_estimators(
    {"as fitted": before, "edited": after}, "quarter", target="rent"
)
plt.show()
