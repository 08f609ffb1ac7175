"""Conformal sets of MAPIE and of fidgp-metrics on the same scores, compared set by set.

Without --scores: probabilities of a logistic regression on scikit-learn's digits. With it: a CSV of `label,p_0,p_1,…`,
made from the `top` of `fidgp predict --top ALL --jsonl` and the labels.
"""

import argparse
import json
import subprocess
import tempfile

import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import RAPSConformityScore
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit

LEVELS = [0.8, 0.9, 0.95]
SEED = 42


class Given(ClassifierMixin, BaseEstimator):
    """Probabilities that are known: X holds the row numbers."""

    def __init__(self, probs):
        self.probs = probs
        self.classes_ = np.arange(probs.shape[1])
        self.is_fitted_ = True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.probs[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X):
        return self.predict_proba(X).argmax(1)


def digits():
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    x = x + rng.normal(0, 6, x.shape)  # so that some are hard
    fitted = LogisticRegression(max_iter=2000, C=1e-3).fit(x[:500], y[:500])
    return fitted.predict_proba(x[500:]), y[500:]


def ours(rows, score, last):
    """Sets of the test rows as a boolean array [rows, classes, levels]."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        for part, label, u, probs in rows:
            file.write(",".join([part, str(label), repr(float(u)), *(repr(float(p)) for p in probs)]) + "\n")
        file.flush()
        command = ["cargo", "run", "-q", "--release", "-p", "fidgp-metrics", "--example", "sets", "--"]
        said = subprocess.run(
            [*command, file.name, score, last, *map(str, LEVELS)], check=True, capture_output=True, text=True
        ).stdout.split("\n")[:-1]
    sets = np.zeros((len(said), len(rows[0][3]), len(LEVELS)), bool)
    for i, line in enumerate(said):
        for k, classes in enumerate(line.split(",")):
            sets[i, [int(c) for c in classes.split()], k] = True
    return sets


def compare(probs, labels, kind, last):
    n = len(labels) // 2
    numbers = np.arange(len(labels)).reshape(-1, 1)
    score = RAPSConformityScore() if kind == "raps" else kind
    peer = SplitConformalClassifier(
        Given(probs), confidence_level=LEVELS, conformity_score=score, prefit=True, random_state=SEED
    ).conformalize(numbers[:n], labels[:n])
    include = {"keep": True, "random": "randomized"}[last]
    _, theirs = peer.predict_set(numbers[n:], conformity_score_params={"include_last_label": include})
    rows = np.arange(n)
    if kind == "raps":  # some rows choose λ and k; both are taken from MAPIE
        part = StratifiedShuffleSplit(1, test_size=len(score.X_raps), random_state=SEED)
        rows, _ = next(part.split(rows, labels[:n]))
    u = np.random.RandomState(SEED).uniform(size=len(rows))
    v = np.random.RandomState(SEED).uniform(size=len(labels) - n)
    given = [("cal", labels[i], u[j], probs[i]) for j, i in enumerate(rows)]
    given += [("test", labels[n + j], v[j], probs[n + j]) for j in range(len(labels) - n)]
    if kind != "raps":
        found = ours(given, kind, last)
    else:
        stars = np.broadcast_to(score.lambda_star, len(LEVELS)), np.broadcast_to(np.ravel(score.k_star), len(LEVELS))
        each = [ours(given, f"raps:{l}:{int(k)}", last)[:, :, i] for i, (l, k) in enumerate(zip(*stars))]
        found = np.stack(each, 2)
    covered = theirs[np.arange(len(theirs)), labels[n:], :]
    return [
        {
            "score": kind,
            "last": last,
            "level": level,
            "sets": len(theirs),
            "different": int((theirs[:, :, i] != found[:, :, i]).any(1).sum()),
            "mean_size": float(found[:, :, i].sum(1).mean()),
            "coverage": float(found[np.arange(len(found)), labels[n:], i].mean()),
            "mean_size_mapie": float(theirs[:, :, i].sum(1).mean()),
            "coverage_mapie": float(covered[:, i].mean()),
        }
        for i, level in enumerate(LEVELS)
    ]


def golden():
    """A few rows with MAPIE's sets, as constants for crates/fidgp-metrics/tests/mapie.rs."""
    rng = np.random.default_rng(5)
    probs = np.round(rng.dirichlet([0.7] * 4, 60), 3)
    probs[:, 3] = np.round(1 - probs[:, :3].sum(1), 3)
    labels = np.array([rng.choice(4, p=p) for p in probs])
    labels[:4] = range(4)  # the peer wants to see every class
    print("probs", (1000 * probs).round().astype(int).ravel().tolist())
    print("labels", labels.tolist())
    print("u", np.random.RandomState(SEED).uniform(size=30).tolist())
    for kind, last in [("lac", "keep"), ("aps", "keep"), ("aps", "random")]:
        numbers = np.arange(60).reshape(-1, 1)
        peer = SplitConformalClassifier(
            Given(probs), confidence_level=0.8, conformity_score=kind, prefit=True, random_state=SEED
        ).conformalize(numbers[:30], labels[:30])
        include = {"keep": True, "random": "randomized"}[last]
        _, sets = peer.predict_set(numbers[30:], conformity_score_params={"include_last_label": include})
        print(kind, last, ["".join(str(c) for c in np.flatnonzero(row)) for row in sets[:, :, 0]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scores", help="CSV of label,p_0,p_1,…")
    parser.add_argument("--out", help="where the record goes")
    parser.add_argument("--golden", action="store_true", help="print the constants of a test")
    arguments = parser.parse_args()
    if arguments.golden:
        return golden()
    if arguments.scores:
        table = np.loadtxt(arguments.scores, delimiter=",")
        probs, labels = table[:, 1:], table[:, 0].astype(int)
        probs = probs / probs.sum(1, keepdims=True)
    else:
        probs, labels = digits()
    found = []
    for kind, last in [("lac", "keep"), ("aps", "keep"), ("aps", "random"), ("raps", "keep"), ("raps", "random")]:
        for row in compare(probs, labels, kind, last):
            found.append(row)
            print("{score:5} {last:7} {level:4} sets {sets}, different {different}".format(**row), end="; ")
            print("size {mean_size:.3f} and {mean_size_mapie:.3f}, coverage {coverage:.4f} and {coverage_mapie:.4f}".format(**row))
    if arguments.out:
        import mapie

        record = {"mapie": mapie.__version__, "scores": arguments.scores or "digits", "seed": SEED, "rows": found}
        with open(arguments.out, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")


main()
