"""
Missing cells and rare levels
=============================

Missing cells are not imputed: being missing has its own effect, which is drawn next to the curve.
Effects of levels with few rows are shrunk towards the average, which reduces noise.
"""

# %%
# Simulated customers
# -------------------
#
# Customers with a higher income state it less often, and buy more. Forty branches have between a
# few and some hundred customers; their true effects on sales are known, because the data are
# simulated.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(1)
n = 4000
branches = np.array([f"branch {k}" for k in range(1, 41)])
truth = dict(zip(branches, rng.normal(0, 3, 40), strict=True))
branch = rng.choice(branches, n, p=rng.dirichlet(np.full(40, 0.5)))
income = rng.gamma(4, 10, n)
sales = 25 * np.sqrt(income / 40) + [truth[b] for b in branch] + rng.normal(0, 6, n)
customers = {"income": np.where(rng.random(n) < income / 150, np.nan, income), "branch": branch}
print(f"{np.isnan(customers['income']).mean():.0%} do not say their income")

model = cb.CWBRegressor(terms="smooth").fit(customers, sales)

# %%
# The hollow mark is the effect of a missing cell. If the cells had been filled with the mean, these
# customers would look average.

model.plot("income", target="sales", labels={"income": "income (thousands)"})
plt.show()

# %%
# Rare levels
# -----------
#
# The effect of a branch in the model, compared with the mean of its residuals, which would be the
# effect in an unpenalised model. Branches with few customers are shrunk more.

without = cb.CWBRegressor(terms="smooth", exclude=["branch"]).fit(customers, sales)
residual = sales - without.predict(customers)
effect = model.model_.effect("branch")
found = dict(zip(effect["branch"], effect["effect"], strict=True))
counts = {b: int((branch == b).sum()) for b in found}
means = {b: residual[branch == b].mean() for b in found}
center = np.average(list(truth.values()), weights=[(branch == b).mean() for b in truth])

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, sharex=True, layout="constrained")
for ax, values, title in zip(
    axes, (means, found), ("mean of the branch", "effect in the model"), strict=True
):
    x = [truth[b] - center for b in found]
    size = [8 + counts[b] / 2 for b in found]
    ax.axline((0, 0), slope=1, color="0.8", lw=0.8)
    ax.scatter(x, [values[b] for b in found], s=size, alpha=0.6, color="#0072B2", lw=0)
    error = np.sqrt(np.mean([(values[b] - truth[b] + center) ** 2 for b in found]))
    ax.set_title(f"{title}: error {error:.2f}", loc="left", fontsize=10)
    ax.set_xlabel("what the branch adds in truth")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("what is estimated (larger dots: more customers)")
plt.show()
