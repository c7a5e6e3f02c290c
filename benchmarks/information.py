"""How many iterations do information criteria choose, and what does the choice cost?

Simulated tables, in which three columns have effects. The cost of a number of iterations is its
risk on 10,000 new rows minus the lowest risk, as a share of the difference between the risk of the
start and the lowest risk. Prints a Markdown table:

    python benchmarks/information.py
"""

import argparse
import warnings

import numpy as np

import cwboost as cb

CASES = [(300, 5), (300, 50), (2000, 10)]  # rows, columns
RATES = {"squared": 0.1, "poisson": 0.1, "binomial": 0.1}
N_ITER = 400


def make_rows(rng, n, p, loss):
    table = rng.uniform(size=(n, p))
    a, b, c = table[:, :3].T
    f = np.sin(6 * a) + 4 * (b - 0.5) ** 2 + c
    if loss == "squared":
        return table, f + rng.normal(size=n)
    if loss == "poisson":
        return table, rng.poisson(np.exp(f - 0.5))
    return table, rng.uniform(size=n) < 1 / (1 + np.exp(-2 * (f - 0.8)))


def cross_validated(table, y, loss, optimizer, rng, folds=10):
    fold = rng.permutation(np.arange(len(y)) % folds)
    options = {"loss": loss, "optimizer": optimizer, "n_iter": N_ITER, "patience": None}
    fits = [cb.fit(table, y, validation=fold == k, **options) for k in range(folds)]
    return int(np.mean([model.validation_risk for model in fits], axis=0).argmin())


def choices(seed, n, p, loss):
    """Return the iterations chosen by each rule, and their costs."""
    rng = np.random.default_rng(seed)
    (table, y), new = make_rows(rng, n, p, loss), make_rows(rng, 10_000, p, loss)
    optimizer = cb.Plain(RATES[loss])
    options = {"loss": loss, "optimizer": optimizer, "n_iter": N_ITER, "patience": None}
    model = cb.fit(table, y, validation=new, **options)
    risk = model.validation_risk
    rules = {"trace": (None, "trace"), "active": (None, "active")}
    if loss == "squared":
        rules["gmdl"] = ("gmdl", "trace")
    found = {"best": int(risk.argmin())}
    for name, rule in rules.items():
        found[name] = cb.aic(model, table, y, *rule, validation=new).best_iteration
    found["cv"] = cross_validated(table, y, loss, optimizer, rng)
    found["last"] = N_ITER
    gained = risk[0] - risk.min()
    return found, {name: (risk[m] - risk.min()) / gained for name, m in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "the .* is least at the last iteration")
    names = ["best", "trace", "gmdl", "active", "cv", "last"]
    print(f"| loss | rows, columns | {' | '.join(names)} |")
    print("|---" * (len(names) + 2) + "|")
    for loss in RATES:
        for n, p in CASES:
            runs = [choices(seed, n, p, loss) for seed in range(arguments.repetitions)]
            cells = [
                f"{np.median([m[name] for m, _ in runs]):.0f}: "
                f"{np.mean([cost[name] for _, cost in runs]):.1%}"
                if name in runs[0][0]
                else ""
                for name in names
            ]
            print(f"| {loss} | {n}, {p} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
