"""Which learner does boosting choose first if no column has an effect?

Pure noise, one column per kind of learner, one iteration, many repetitions. If the choice is fair,
each learner is chosen equally often. Prints a Markdown table:

    python benchmarks/fair_choice.py
"""

import argparse

import numpy as np

import cwboost as cb

COLUMNS = ("line", "two levels", "ten levels", "spline", "steps")


def make_table(rng, n):
    return {
        "line": rng.normal(size=n),
        "two levels": rng.choice(["a", "b"], n),
        "ten levels": rng.choice(list("abcdefghij"), n),
        "spline": rng.uniform(size=n),
        "steps": rng.uniform(size=n),
    }


def make_learners(df):
    return [
        cb.Linear("line"),
        cb.Category("two levels", df=df),
        cb.Category("ten levels", df=df),
        cb.Spline("spline", df=df),
        cb.Step("steps", df=df),
    ]


def component_learners(df):
    """Return lines and curves as separate learners: all get net df 1."""
    del df
    return [
        cb.Linear("line"),
        cb.Category("two levels"),
        cb.Category("ten levels"),
        cb.Centered("spline"),
        cb.Step("steps"),
    ]


def shares(learners, repetitions, n):
    """Return how often each column is chosen first, and the net df of its term."""
    first = dict.fromkeys(COLUMNS, 0)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        table = make_table(rng, n)
        model = cb.fit(table, rng.normal(size=n), learners, n_iter=1)
        first[model.choices[0]] += 1
    net_df = {name: term.net_df for name, term in model.terms.items()}
    return {name: count / repetitions for name, count in first.items()}, net_df


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=200)
    arguments = parser.parse_args()
    cases = {
        "df=5 for all": make_learners(5),
        "default": make_learners(None),
        "default beside Centered": component_learners(None),
    }
    found = {
        name: shares(learners, arguments.repetitions, arguments.rows)
        for name, learners in cases.items()
    }
    print(f"Chosen first on noise, {arguments.rows} rows, {arguments.repetitions} repetitions:\n")
    print("| column | " + " | ".join(f"{name}: net df | share" for name in found) + " |")
    print("|---|" + "--:|" * (2 * len(found)))
    for column in COLUMNS:
        cells = [f"{net[column]:.2f} | {100 * share[column]:.1f}%" for share, net in found.values()]
        print(f"| {column} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
