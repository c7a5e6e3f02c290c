"""
A map from two columns
======================

``cb.Tensor("lon", "lat")`` is one smooth effect of two columns: a surface. It is drawn with
contours around zero, and left blank where no training row is near, since nothing is known there.
"""

# %%
# Simulated house prices
# ----------------------
#
# A round town with two centres, divided by a river. Prices per square metre fall with the distance
# to the nearer centre.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(3)
n = 6000
lon, lat = rng.normal(0, 3, n), rng.normal(0, 3, n)
lived_in = (lon**2 + lat**2 < 40) & (np.abs(lat - 0.6 * lon + 1) > 0.5)
lon, lat = lon[lived_in], lat[lived_in]
near = np.minimum(np.hypot(lon + 2, lat - 1), np.hypot(lon - 3, lat + 2.5))
built = rng.choice(["before 1919", "1919-1949", "1950-1990", "after 1990"], len(lon))
extra = np.select([built == "before 1919", built == "after 1990"], [400.0, 700.0], 0.0)
price = 6000 - 900 * near + 60 * near**2 + extra + rng.normal(0, 500, len(lon))
houses = {"lon": lon, "lat": lat, "built": built}

model = cb.fit(
    houses, price, [cb.Tensor(cb.Spline("lon", knots=14), cb.Spline("lat", knots=14), df=20), ...],
    n_iter=500, validation=0.2,
)  # fmt: skip
print(model.summary())

# %%
# The surface
# -----------
#
# With ``table=`` the rows are shown as dots.

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
model.plot("lon:lat", target="price", ax=axes[0])
model.plot("lon:lat", target="price", table=houses, ax=axes[1])
plt.show()

# %%
# The other effect is the year of construction, with levels in the order of the column.

model.plot("built", target="price", sort=False)
plt.show()
