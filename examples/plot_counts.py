"""
Counts with exposure
====================

Claims, accidents, failures: counts grow with the time that a row was observed. With ``exposure``
the model predicts rates, and its plots show rates per unit of exposure.
"""

# %%
# Simulated policies
# ------------------
#
# Every policy was in force for a part of a year. The number of claims is Poisson with a rate that
# depends on the driver's age, the power of the car and the region. Young drivers of powerful cars
# have more claims than the two effects suggest.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(0)
n = 40_000
policies = {
    "age": np.clip(rng.gamma(8, 6, n), 18, 95).round(),
    "power": rng.integers(4, 16, n).astype(float),
    "region": rng.choice(["city", "coast", "plain", "hills"], n, p=[0.35, 0.15, 0.3, 0.2]),
    "years": rng.uniform(0.05, 1.0, n),
}
regions = {"city": 0.3, "coast": 0.1, "plain": -0.2, "hills": 0.0}
log_rate = -2.2 + 0.9 * np.exp(-(policies["age"] - 18) / 8) + 0.03 * (policies["power"] - 8)
log_rate += np.array([regions[r] for r in policies["region"]])
log_rate += 0.1 * np.maximum(policies["power"] - 9, 0) * (policies["age"] < 30)
claims = rng.poisson(policies["years"] * np.exp(log_rate)).astype(float)

regressor = cb.CWBRegressor(
    "poisson", exposure="years", learners=[cb.Tensor("age", "power"), ...]
).fit(policies, claims)
print(f"{claims.sum():.0f} claims in {policies['years'].sum():.0f} years")

# %%
# Rates and factors
# -----------------
#
# ``scale="response"`` is the expected number of claims in a whole year, for a row that is average
# otherwise (the horizontal line). ``scale="ratio"`` is the factor by which the rate is multiplied,
# as in tariffs.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
words = {"labels": {"age": "age (years)"}, "target": "claims"}
regressor.plot("age", scale="response", ax=axes[0], **words)
regressor.plot("age", scale="ratio", ax=axes[1], **words)
plt.show()

# %%
regressor.plot("region", scale="ratio", target="claims")
plt.show()

# %%
# Two columns together
# --------------------
#
# The map shows what the pair adds to the effects of age and power. It is blank where no rows are
# near.

regressor.plot("age:power", scale="ratio", **words)
plt.show()

# %%
# One policy
# ----------
#
# The exposure is a separate bar: half a year, half the claims.

regressor.plot(kind="explanation", table=policies, row=11, target="claims")
plt.show()
