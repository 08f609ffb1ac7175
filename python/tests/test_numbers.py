"""Metrics and conformal prediction beside plain NumPy and scikit-learn."""
import doctest

import fidgp
import fidgp._train
import fidgp.sklearn
import numpy as np
import pytest
from conftest import ROOT
from fidgp import conformal, metrics
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score


@pytest.mark.parametrize("module", [fidgp, fidgp._train, fidgp.sklearn, conformal, metrics])
def test_examples_in_the_documentation_run(module):
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def entropy(p):
    return -np.sum(p * np.log(p), axis=-1)


def some_probabilities(count=200, classes=4, seed=0):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(classes), size=count)
    return p, np.array([random.choice(classes, p=row) for row in p])


def test_scores_of_classes():
    p, y = some_probabilities()
    rows = np.arange(len(y))
    assert metrics.accuracy(p, y) == pytest.approx(np.mean(p.argmax(axis=1) == y))
    assert metrics.nll(p, y) == pytest.approx(log_loss(y, p))
    assert metrics.brier(p, y) == pytest.approx(np.mean(np.sum((p - np.eye(4)[y]) ** 2, axis=1)))
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.ceil(confidence * 10).astype(int)
    gaps = [abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in np.unique(bins)]
    assert metrics.ece(p, y, bins=10) == pytest.approx(sum(gaps) / len(y))
    assert metrics.ece(p, y, adaptive=True) != metrics.ece(p, y)
    split = metrics.entropy_split(np.stack([p, p[::-1]]))
    assert np.allclose(split.total, entropy((p + p[::-1]) / 2))
    assert np.allclose(split.total, split.aleatoric + split.epistemic)
    assert p[rows, y].min() > 0


def test_scores_of_numbers():
    random = np.random.default_rng(1)
    mean, sd, y = random.normal(size=50), random.uniform(0.5, 2.0, size=50), random.normal(size=50)
    assert metrics.rmse(mean, y) == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))
    assert metrics.mae(mean, y) == pytest.approx(np.mean(np.abs(mean - y)))
    density = -0.5 * np.log(2 * np.pi * sd**2) - (y - mean) ** 2 / (2 * sd**2)
    assert metrics.gaussian_nll(mean, sd, y) == pytest.approx(-density.mean())
    draws = mean + sd * random.normal(size=(20_000, 50))
    sampled = np.abs(draws - y).mean(axis=0) - 0.5 * np.abs(draws[::2] - draws[1::2]).mean(axis=0)
    assert metrics.crps(mean, sd, y) == pytest.approx(sampled.mean(), rel=0.02)
    z = 1.959963984540054
    assert metrics.coverage(mean, sd, y) == pytest.approx(np.mean(np.abs(y - mean) <= z * sd))
    assert metrics.interval_width(mean, sd, y) == pytest.approx(2 * z * sd.mean())


def test_scores_of_rankings():
    random = np.random.default_rng(2)
    inside, outside = random.normal(size=80), random.normal(1.0, size=60)
    truth, scores = np.r_[np.zeros(80), np.ones(60)], np.r_[inside, outside]
    assert metrics.auroc(inside, outside) == pytest.approx(roc_auc_score(truth, scores))
    assert metrics.aupr(inside, outside) == pytest.approx(average_precision_score(truth, scores))
    assert metrics.aupr(inside, outside, "inside") == pytest.approx(average_precision_score(1 - truth, -scores))
    assert 0 < metrics.fpr95(inside, outside) <= 1 and 0 < metrics.fpr95(inside, outside, "outside") <= 1
    losses = random.uniform(size=80)
    order = np.argsort(-inside)
    risks = np.cumsum(losses[order]) / np.arange(1, 81)
    assert metrics.aurc(inside, losses) == pytest.approx(risks.mean())
    assert 0 < metrics.augrc(inside, losses) < metrics.aurc(inside, losses)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: metrics.nll([[0.5, 0.6]], [0]),
        lambda: metrics.nll([[0.5, 0.5]], [2]),
        lambda: metrics.nll([[0.5, 0.5]], [-1]),
        lambda: metrics.nll([[0.5, 0.5]], [0.0]),
        lambda: metrics.nll([0.5, 0.5], [0]),
        lambda: metrics.rmse([1.0], [1.0, 2.0]),
        lambda: metrics.rmse([np.nan], [1.0]),
        lambda: metrics.rmse([], []),
        lambda: metrics.rmse([1j], [1.0]),
        lambda: metrics.crps([1.0], [0.0], [1.0]),
        lambda: metrics.coverage([1.0], [1.0], [1.0], level=2.0),
        lambda: metrics.auroc([1.0], []),
        lambda: metrics.aupr([1.0], [2.0], "both"),
        lambda: conformal.ClassSets([[0.5, 0.5]], [0], score="best"),
        lambda: conformal.ClassSets([[0.5, 0.5]] * 9, [0] * 9, level=0.8).predict([[0.2, 0.3, 0.5]]),
        lambda: conformal.ClassSets([[0.5, 0.5]] * 9, [0] * 9, level=0.8).predict([[np.nan, 0.5]]),
        lambda: conformal.Intervals([0.0], [0.0], [1.0]),
        lambda: conformal.Intervals([0.0], [1.0], [1.0], score="best"),
        lambda: conformal.p_values([], [1.0]),
        lambda: conformal.bound_risk([1.0], [0]),
        lambda: conformal.smallest_count(1.5),
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="."):
        wrong()


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
@pytest.mark.parametrize("by_class", [False, True])
def test_sets_hold_the_class_as_often_as_they_say(score, by_class):
    p, y = some_probabilities(3000, seed=3)
    sets = conformal.ClassSets(p[:1500], y[:1500], 0.9, score=score, by_class=by_class)
    held = sets.predict(p[1500:])
    assert 0.87 < held[np.arange(1500), y[1500:]].mean() < (0.93 if score == "lac" else 1.0)
    assert len(sets.thresholds) == (4 if by_class else 1) and "level=0.9" in repr(sets)


def test_intervals_hold_the_number_as_often_as_they_say():
    random = np.random.default_rng(4)
    sd = random.uniform(0.5, 2.0, size=4000)
    y = sd * random.standard_t(3, size=4000)
    plain = conformal.Intervals(np.zeros(2000), sd[:2000], y[:2000], 0.9)
    ends = plain.predict(np.zeros(2000), sd[2000:])
    assert 0.87 < np.mean((ends[:, 0] <= y[2000:]) & (y[2000:] <= ends[:, 1])) < 0.93
    moved = conformal.Intervals(-sd[:2000], sd[:2000], y[:2000], 0.9, score="quantiles").predict(-sd[2000:], sd[2000:])
    assert 0.87 < np.mean((moved[:, 0] <= y[2000:]) & (y[2000:] <= moved[:, 1])) < 0.93
    assert np.isinf(conformal.Intervals([0.0], [1.0], [1.0], 0.9).threshold)  # one example promises nothing
    assert conformal.bound_risk(np.arange(20.0), np.arange(20) > 15) is None


def test_the_page_of_the_documentation_is_true(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(ROOT / "docs" / "use" / "python.md"), module_relative=False, encoding="utf-8")
    assert found.attempted > 15 and found.failed == 0
