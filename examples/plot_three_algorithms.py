"""
Three algorithms on one data set
================================

Plain boosting (CWB) takes many small steps. Acceleration (ACWB) takes larger steps by momentum, and
diverges if it is not stopped. The hybrid (HCWB) starts like ACWB and ends like CWB. Here all three
fit the same simulated table, and we compare the risk along the path and the final curves.
"""

# %%
# The data
# --------
#
# Five columns have an effect, five are noise. Each informative column is uniform on its own range;
# its effect is a cubic spline (order 4) with 10 basis functions and coefficients from N(0, 9). The
# added noise has the variance of the signal (a signal-to-noise ratio of 1).

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import BSpline

import cwboost as cb

rng = np.random.default_rng(3)
n, n_informative, n_noise = 5000, 5, 5

table, truth = {}, {}
for j in range(1, n_informative + 1):
    low = rng.uniform(0, 100)
    high = low + rng.uniform(0, 100)
    inner = np.linspace(low, high, 8)
    step = inner[1] - inner[0]
    beyond = step * np.arange(1, 4)
    knots = np.concatenate([low - beyond[::-1], inner, high + beyond])
    table[f"x{j}"] = rng.uniform(low, high, n)
    truth[f"x{j}"] = BSpline(knots, rng.normal(0, 3, 10), 3)
for j in range(1, n_noise + 1):
    table[f"noise{j}"] = rng.normal(size=n)

signal = sum(effect(table[name]) for name, effect in truth.items())
y = signal + rng.normal(0, signal.std(), n)

# %%
# Three fits
# ----------
#
# Three rows of every ten are held out, the same 1500 for the three fits. ``patience=None`` switches
# early stopping off, so that we see where each path leads.
#
# ``then="training"`` keeps the hybrid's second phase on the training rows. The default,
# ``then="all"``, continues with all rows. This makes a better model of the same data, but from the
# switch on the fit learns from the validation rows, so their risk no longer says anything about new
# rows.

held = np.arange(n) % 10 < 3
optimizers = {
    "CWB": cb.Plain(rate=0.05),
    "ACWB": cb.Accelerated(rate=0.05, momentum=0.037),
    "HCWB": cb.Hybrid(rate=0.05, momentum=0.037, then="training"),
}
models = {
    name: cb.fit(table, y, optimizer=optimizer, n_iter=3000, validation=held, patience=None)
    for name, optimizer in optimizers.items()
}
hybrid = models["HCWB"].path
print(f"HCWB was accelerated until iteration {hybrid.switched_after} and went on from", end=" ")
print(f"iterate {hybrid.rewound_to}, the best it had seen.")

# %%
# The risk on the way
# -------------------
#
# A dot marks the iterate with the lowest validation risk, which ``fit`` returns.

colors = {"CWB": "#0072B2", "ACWB": "#D55E00", "HCWB": "#009E73"}  # safe for colour-blind readers
styles = {"CWB": "-", "ACWB": (0, (4, 1.5)), "HCWB": "-"}
widths = {"CWB": 1.6, "ACWB": 1.8, "HCWB": 2.4}

noise_risk = np.var((y - signal)[held]) / 2
iterations = np.arange(1, 3001)
fig, axes = plt.subplots(1, 3, figsize=(8.5, 3.9), layout="constrained")
for name, model in models.items():
    style = {"color": colors[name], "linestyle": styles[name], "linewidth": widths[name]}
    style["zorder"] = 3 if name == "ACWB" else 2
    axes[0].plot(iterations, model.risk[1:], label=name, **style)
    best = model.best_iteration
    for ax in axes[1:]:
        ax.plot(iterations, model.validation_risk[1:], **style)
        ax.plot(best, model.validation_risk[best], "o", color=colors[name], clip_on=False, zorder=4)
titles = ("training rows", "validation rows", "validation, close up")
for ax, title in zip(axes, titles, strict=True):
    ax.axvline(hybrid.switched_after, color=colors["HCWB"], linestyle=":", linewidth=1.4)
    ax.set(xscale="log", xlim=(10, 3000), ylim=(5.6, 11), xlabel="iteration", title=title)
    ax.spines[["top", "right"]].set_visible(False)
axes[2].set(xlim=(60, 3000), ylim=(5.87, 6.6))
axes[2].axhline(noise_risk, color="0.6", linewidth=1)
axes[2].text(65, noise_risk + 0.012, "risk of the true effects", color="0.35", fontsize=9)
axes[2].text(1.1 * hybrid.switched_after, 6.03, "HCWB switches", color=colors["HCWB"], fontsize=9)
axes[0].set_ylabel("risk: mean of (y - score)² / 2")
fig.legend(frameon=False, loc="outside upper center", ncols=3)
plt.show()

# %%
# The risk of ACWB falls fastest and then diverges. This is not overfitting: its *training* risk
# rises too. Nesterov's momentum grows with the iterations and amplifies the error of moving only
# one term at a time. HCWB switches off momentum in time, and its risk continues to fall.
#
# How many iterations does each need to come within 5%, 2% and 1% of the lowest validation risk of
# all three?

least = min(model.validation_risk.min() for model in models.values())


def needs(model, share):
    """Return the first iteration with a validation risk this close to the lowest."""
    hits = np.flatnonzero(model.validation_risk <= (1 + share) * least)
    return hits[0] if len(hits) else "never"


print("within      5%     2%     1%   best at   its risk   risk at 3000")
for name, model in models.items():
    cells = "".join(f"{needs(model, share):>7}" for share in (0.05, 0.02, 0.01))
    best, risk = model.best_iteration, model.validation_risk
    print(f"{name:7}{cells}{best:10}{risk[best]:11.3f}{risk[-1]:15.5g}")

# %%
# The momentum decides how soon ACWB diverges. A smaller momentum delays this but does not prevent
# it: give ACWB validation rows, or use HCWB. (The default is 0.0034 in ``cb.Accelerated`` and 0.037
# in ``cb.Hybrid``.)

print("momentum   within 2%   best at   its risk   training risk turns at")
for momentum in (0.037, 0.01, 0.0034, 0.001):
    optimizer = cb.Accelerated(rate=0.05, momentum=momentum)
    model = cb.fit(table, y, optimizer=optimizer, n_iter=3000, validation=held, patience=None)
    best, risk = model.best_iteration, model.validation_risk
    line = f"{momentum:8}{needs(model, 0.02):>12}{best:10}{risk[best]:11.3f}"
    print(line + f"{model.risk.argmin():25}")

# %%
# The curves at the end
# ---------------------
#
# ``fit`` returned each model at its best iterate. Effects have mean zero over the training rows, so
# we centre the true effects in the same way. The sixth panel is a column without effect.

train = {name: column[~held] for name, column in table.items()}
shown = [*truth, "noise1"]
fig, axes = plt.subplots(2, 3, figsize=(8.5, 4.8), sharey=True, layout="constrained")
for ax, column in zip(axes.flat, shown, strict=True):
    grid = np.linspace(train[column].min(), train[column].max(), 200)
    true = truth.get(column, np.zeros_like)
    ax.plot(grid, true(grid) - true(train[column]).mean(), color="0.75", linewidth=6, label="true")
    for name, model in models.items():
        curve = model.effect(column)
        ax.plot(curve[column], curve["effect"], color=colors[name], linestyle=styles[name],
                linewidth=1.6, label=name)  # fmt: skip
    ax.set_title(column, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
for ax in axes[:, 0]:
    ax.set_ylabel("effect on y")
axes[0, 0].legend(frameon=False, fontsize=9, ncols=2)
plt.show()

# %%
# The root mean squared error of each curve, and the number of selected noise columns. All noise
# columns were selected, with small effects: early stopping by held-out rows optimises predictions,
# and that takes more iterations than the best selection of columns.

print("       " + "".join(f"{column:>8}" for column in truth) + "   noise columns chosen")
for name, model in models.items():
    found = model.contributions(train)
    errors = []
    for column, effect in truth.items():
        true = effect(train[column])
        errors.append(np.sqrt(np.mean((found[column] - true + true.mean()) ** 2)))
    chosen = sum(model.terms[f"noise{j}"].chosen for j in range(1, n_noise + 1))
    print(f"{name:7}" + "".join(f"{error:8.3f}" for error in errors) + f"{chosen:10} of {n_noise}")
