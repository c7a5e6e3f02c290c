"""
Missing cells and rare levels
=============================

Empty cells stay empty: being missing has an effect of its own, which is drawn beside the curve. And
levels with few rows are drawn towards the average, so that chance does not speak through them.
"""

# %%
# Simulated customers
# -------------------
#
# Who earns more says so less often, and buys more. Forty branches have between a few and some
# hundred customers; what they add to the sales is known here, because it was drawn.

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
# The hollow mark is the effect of a missing cell. Had the cells been filled with the mean, these
# customers would look average.

model.plot("income", target="sales", labels={"income": "income (thousands)"})
plt.show()

# %%
# Rare levels
# -----------
#
# What the model says about a branch against the mean of its residuals, which is what an unpenalised
# model would say. Branches with few customers are trusted less.

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
