import pickle

import fidgp
import numpy as np
import pandas
import pytest
from conftest import rows
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks


SMALL = {"hidden": (20,), "inducing": 10, "epochs": 100, "draws": 4}


@parametrize_with_checks([fidgp.FidgpRegressor(**SMALL), fidgp.FidgpClassifier(**SMALL)])
def test_what_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_learns_and_knows_where_it_does_not_know():
    x, y = rows(300)
    regressor = fidgp.FidgpRegressor(epochs=100, random_state=0).fit(x, y)
    mean, sd = regressor.predict(x, return_std=True)
    assert regressor.score(x, y) > 0.95
    assert 0.8 < fidgp.metrics.coverage(mean, sd, y, 0.9) < 1.0
    assert regressor.predict([[50.0, 50.0]], return_std=True)[1][0] > 3 * sd.max()
    assert regressor.model_.predict(x[:2]).epistemic.shape == (2,)


def test_seeds_copies_and_pickles_predict_the_same():
    x, y = rows(60)
    regressor = fidgp.FidgpRegressor(epochs=5, random_state=3).fit(x, y)
    again = clone(regressor).fit(x, y)
    other = clone(regressor).set_params(random_state=4).fit(x, y)
    copy = pickle.loads(pickle.dumps(regressor))
    mean, sd = regressor.predict(x, return_std=True)
    for same in (again, copy):
        found = same.predict(x, return_std=True)
        assert np.array_equal(found[0], mean) and np.array_equal(found[1], sd)
    assert not np.array_equal(other.predict(x), mean)


def test_it_is_part_of_scikit_learn():
    x, y = rows(90)
    frame = pandas.DataFrame(x, columns=["size", "age"])
    pipeline = make_pipeline(StandardScaler(), fidgp.FidgpRegressor(epochs=60, random_state=0))
    assert cross_val_score(pipeline, frame, y, cv=2).mean() > 0.8


@pytest.mark.parametrize("method", ["ffgu", "ensemble", "mc-dropout", "mean-field", "laplace", "deterministic"])
def test_other_methods(method):
    x, y = rows(60)
    settings = {"baseline.members": 2} if method == "ensemble" else None
    regressor = fidgp.FidgpRegressor(method, epochs=2, draws=4, settings=settings, random_state=0).fit(x, y)
    mean, sd = regressor.predict(x, return_std=True)
    assert np.isfinite(mean).all() and (sd > 0).all()


def test_what_cannot_be_is_refused():
    x, y = rows(20)
    with pytest.raises(ValueError, match="epocs"):
        fidgp.FidgpRegressor(settings={"train.epocs": 1}).fit(x, y)
    with pytest.raises(ValueError, match="no-such-method"):
        fidgp.FidgpRegressor("no-such-method").fit(x, y)


def classes(count=200, seed=0):
    x, y = rows(count, seed)
    return x, np.where(y > 1.5, "dear", np.where(y > 0.5, "fair", "cheap"))


def test_a_classifier_learns_and_is_part_of_scikit_learn():
    x, y = classes(300)
    classifier = fidgp.FidgpClassifier(epochs=100, random_state=0).fit(x, y)
    assert classifier.classes_.tolist() == ["cheap", "dear", "fair"] and classifier.score(x, y) > 0.85
    p = classifier.predict_proba(x)
    assert p.shape == (300, 3) and np.allclose(p.sum(axis=1), 1.0)
    assert classifier.predict(x).tolist() == classifier.classes_[p.argmax(axis=1)].tolist()
    said = classifier.model_.predict(x[:2])
    assert np.allclose(said.probabilities, p[:2], atol=1e-6) and said.epistemic.shape == (2,)
    copy = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(copy.predict_proba(x), p)
    scores = cross_val_score(make_pipeline(StandardScaler(), clone(classifier)), x, y, cv=2)
    assert scores.mean() > 0.7


@pytest.mark.filterwarnings("ignore:The number of unique classes")  # scikit-learn's own
@pytest.mark.parametrize("y", [np.zeros(101), np.arange(101), np.array(["a"] * 101)])
def test_classes_that_cannot_be_are_refused(y):
    x, _ = rows(101)
    with pytest.raises(ValueError, match=r"class\(es\); FidgpClassifier needs 2 to 100"):
        fidgp.FidgpClassifier(epochs=1).fit(x, y)


@pytest.mark.parametrize("y", [[True, False], [3, 7], [0.0, 1.0], ["no", "yes"]])
def test_classes_may_be_anything_that_can_be_compared(y):
    x, _ = rows(40)
    truth = np.array(y)[(x[:, 0] > 0.5).astype(int)]
    found = fidgp.FidgpClassifier(epochs=60, random_state=0).fit(x, truth).predict(x)
    assert found.dtype == truth.dtype and np.mean(found == truth) > 0.8
