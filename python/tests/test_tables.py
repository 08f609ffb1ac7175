"""Tables with classes as target, and tables with texts, dates, yes, no and gaps."""
import datetime
import json

import fidgp
import numpy as np
import pandas
import polars
import pytest
from conftest import command, config

COLUMNS = ["city", "size", "member", "since", "rooms"]
NEW = """city,size,member,since,rooms
Bonn,8.0,yes,2024-01-05,2
Atlantis,2,no,2024-01-05,2
Ulm,,no,,3
,4.5,,2024-02-01,few
"""


def customers(count=400):
    """A number and a class that follow city, size and member; two columns have gaps, one has texts that look like numbers."""
    random = np.random.default_rng(3)
    city = random.choice(["Bonn", "Kiel", "Ulm"], size=count)
    size = random.uniform(0.0, 10.0, size=count)
    member = random.random(count) < 0.5
    frame = pandas.DataFrame(
        {
            "city": np.where(random.random(count) < 0.1, None, city),
            "size": np.where(random.random(count) < 0.1, np.nan, size),
            "member": np.where(member, "yes", "no"),
            "since": [str(datetime.date(2024, 1, 1) + datetime.timedelta(days=int(d))) for d in random.integers(0, 90, count)],
            "rooms": random.choice(["1", "2", "few"], size=count, p=[0.2, 0.2, 0.6]),
        }
    )
    frame["outcome"] = np.where((city == "Bonn") & (size > 3.0) | member & (size > 7.0), "stays", "leaves")
    frame["price"] = 2.0 * size + 3.0 * (city == "Ulm") + 0.1 * random.normal(size=count)
    return frame


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("customers")
    customers().to_csv(place / "customers.csv", index=False)
    (place / "new.csv").write_text(NEW)
    return place


def trained(place, target, likelihood, name, features=COLUMNS):
    wanted = config(place / "customers.csv", epochs=30)
    wanted["data"] = {"set": "table", "path": str(place / "customers.csv"), "target": target, "features": features}
    return fidgp.train({**wanted, "likelihood": likelihood}, place / name, device="cpu")


@pytest.fixture(scope="module")
def classifier(place):
    return trained(place, "outcome", {"kind": "categorical"}, "classes")


@pytest.fixture(scope="module")
def regressor(place):
    return trained(place, "price", {"kind": "gaussian", "noise": {"kind": "fixed", "sd": 0.1}}, "numbers")


def new_rows():
    """What NEW has, as Python has it."""
    return [
        ["Bonn", 8.0, True, datetime.date(2024, 1, 5), 2],
        ["Atlantis", 2, False, np.datetime64("2024-01-05"), 2.0],
        ["Ulm", None, np.bool_(False), pandas.NaT, 3],
        [pandas.NA, np.float64(4.5), None, pandas.Timestamp("2024-02-01"), "few"],
    ]


def frames():
    frame = pandas.DataFrame(new_rows(), columns=COLUMNS)
    days = ["2024-01-05", "2024-01-05", None, "2024-02-01"]
    strict = polars.DataFrame(
        {
            "rooms": ["2", "2", "3", "few"],
            "city": ["Bonn", "Atlantis", "Ulm", None],
            "size": [8.0, 2.0, None, 4.5],
            "member": [True, False, False, None],
            "since": [None if day is None else datetime.date.fromisoformat(day) for day in days],
        }
    )
    typed = frame.assign(since=pandas.to_datetime(frame["since"]), city=frame["city"].astype("category"), other=1)
    return [frame, typed[["other", *reversed(COLUMNS)]], strict, new_rows(), np.array(new_rows(), dtype=object)]


def test_a_model_says_what_it_takes(classifier, regressor):
    assert (classifier.kind, classifier.takes, classifier.target) == ("classes", "rows", "outcome")
    assert classifier.classes == ["leaves", "stays"] and classifier.features == COLUMNS and classifier.image is None
    assert classifier.holds == {"city": "text", "size": "number", "member": "yes or no", "since": "date", "rooms": "text"}
    assert "2 classes of outcome from 5 features" in repr(classifier)
    assert (regressor.kind, regressor.takes, regressor.classes) == ("numbers", "rows", [])
    assert "price from 5 features" in repr(regressor)


@pytest.mark.parametrize("which", range(5))
def test_classes_of_rows_are_what_the_command_says(classifier, place, which):
    told = command("predict", classifier.folder, place / "new.csv", "--json", "--device", "cpu", "--top", 2)["inputs"]
    said = classifier.predict(frames()[which])
    assert isinstance(said, fidgp.ClassPredictions) and len(said) == 4
    assert said.label == [one["class"] for one in told]
    assert np.abs(said.probabilities.max(axis=1) - [one["probability"] for one in told]).max() < 1e-6
    for name in ("total", "aleatoric", "epistemic"):
        assert np.abs(getattr(said, name) - [one[name] for one in told]).max() < 1e-6
    assert said.out_of_range == [one["out_of_range"] for one in told]
    assert said.flags == [one["flags"] for one in told] and "Atlantis" in said.flags[1][0]
    assert json.loads(json.dumps(said.to_dict()))["flags"] == said.flags


@pytest.mark.parametrize("which", range(5))
def test_numbers_of_rows_are_what_the_command_says(regressor, place, which):
    told = command("predict", regressor.folder, place / "new.csv", "--json", "--device", "cpu")["inputs"]
    said = regressor.predict(frames()[which])
    for name in ("mean", "sd", "aleatoric", "epistemic"):
        assert np.abs(getattr(said, name) - [one[name] for one in told]).max() < 1e-6
    assert said.flags == [one["flags"] for one in told] and len(said.flags[2]) > 0


def test_one_row_will_do(classifier):
    alone = classifier.predict(new_rows()[0])
    assert len(alone) == 1 and np.array_equal(alone.probabilities, classifier.predict(new_rows()[:1]).probabilities)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([], "no rows"),
        ([["Bonn", 1.0]], "row 0 of x has 2 cells, the model takes 5: city, size, member, since, rooms"),
        (["Bonn", ["Kiel"]], "side by side"),
        ([["Bonn", "many", True, "2024-01-05", "2"]], "`many` is not a finite number .column `size`"),
        ([["Bonn", np.inf, True, "2024-01-05", "2"]], "`inf` is not a finite number"),
        ([["Bonn", 1.0, 0.5, "2024-01-05", "2"]], "neither yes nor no"),
        ([["Bonn", 1.0, True, "yesterday", "2"]], "not a date"),
        ([[b"Bonn", 1.0, True, "2024-01-05", "2"]], "b'Bonn' in column 'city'"),
        (np.zeros((1, 1, 5)), "rows of cells or a data frame"),
        (pandas.DataFrame({"city": ["Bonn"]}), "no column 'size', 'member', 'since', 'rooms'"),
    ],
)
def test_what_are_no_rows_of_the_table_is_refused(classifier, wrong, words):
    with pytest.raises(ValueError, match=words):
        classifier.predict(wrong)
    with pytest.raises(ValueError, match="tolerance is for pictures"):
        classifier.predict(new_rows(), tolerance=0.1)


def test_rules_for_classes_of_rows(classifier, place, tmp_path):
    model = fidgp.load(classifier.folder, device="cpu")
    held_out = customers(800)[400:]
    found = model.calibrate(held_out, held_out["outcome"], levels=[0.9])
    assert [one["name"] for one in found["features"]] == COLUMNS
    assert found["features"][0]["levels"] == ["Bonn", "Kiel", "Ulm"]
    by_index = fidgp.load(classifier.folder, device="cpu")
    places = [model.classes.index(one) for one in held_out["outcome"]]
    assert by_index.calibrate(held_out, places, levels=[0.9])["rules"] == found["rules"]
    said = model.predict(held_out)
    assert said.sets[0.9].shape == (400, 2) and set(said.decision) <= {"accept", "abstain", "out-of-distribution"}
    truth = np.array(places)
    assert said.sets[0.9][np.arange(400), truth].mean() > 0.85
    model.save(tmp_path / "model")
    told = command("predict", tmp_path / "model", place / "new.csv", "--json", "--device", "cpu")["inputs"]
    kept = model.predict(frames()[0])
    assert kept.decision.tolist() == [one["decision"] for one in told] and kept.reason == [one["reason"] for one in told]
    with pytest.raises(ValueError, match="'goes', which is none of the model's 2 classes"):
        model.calibrate(held_out, ["goes"] * 400)
    with pytest.raises(ValueError, match="400 examples and y has 2"):
        model.calibrate(held_out, [0, 1])


def test_what_was_seen_of_the_model_goes_with_its_new_rules(classifier, tmp_path):
    held_out = customers(800)[400:]
    first = fidgp.load(classifier.folder, device="cpu")
    first.calibrate(held_out, held_out["outcome"], levels=[0.9])
    first.save(tmp_path / "first")
    seen = json.loads((tmp_path / "first" / "trust.json").read_text())
    assert seen["examples"]["fitted"] + seen["examples"]["held_back"] == 400 and seen["mistakes"]
    assert "city = " in seen["mistakes"][0]["input"]
    again = fidgp.load(tmp_path / "first", device="cpu")
    again.calibrate(held_out[:200], held_out["outcome"][:200], levels=[0.8])
    again.save(tmp_path / "second")
    rules, trust = (json.loads((tmp_path / "second" / name).read_text()) for name in ("calibration.json", "trust.json"))
    assert trust["examples"] == rules["examples"] and rules["rules"]["sets"][0]["level"] == 0.8
    kept = fidgp.load(tmp_path / "second", device="cpu").save(tmp_path / "third")  # as they were
    assert (kept / "trust.json").read_bytes() == (tmp_path / "second" / "trust.json").read_bytes()


def test_classes_from_numbers_alone(place, tmp_path):
    frame = customers()
    frame["size"] = frame["size"].fillna(5.0)
    frame.to_csv(tmp_path / "customers.csv", index=False)
    model = trained(tmp_path, "outcome", {"kind": "categorical"}, "plain", ["size", "price"])
    assert model.holds == {"size": "number", "price": "number"}
    x = frame[["size", "price"]].to_numpy()
    said = model.predict(x)
    assert np.mean(np.array(said.label) == frame["outcome"]) > 0.7 and said.flags == [[]] * len(x)
    assert np.array_equal(model.predict(frame).probabilities, said.probabilities)
    with pytest.raises(ValueError, match="NaN"):
        model.predict([[np.nan, 1.0]])


def test_scores_are_high_where_rows_are_strange(classifier, regressor):
    near, far = [["Kiel", 2.0, False, "2024-01-05", "few"]], [["Kiel", 900.0, False, "2024-01-05", "few"]]
    assert regressor.score(far)[0] > 1.5 * regressor.score(near)[0]
    assert np.array_equal(regressor.score(near), regressor.predict(near).epistemic)
    assert np.array_equal(regressor.score(near, "total"), regressor.predict(near).sd)
    said = classifier.predict(near)
    assert np.array_equal(classifier.score(near), said.total)
    assert np.array_equal(classifier.score(near, "epistemic"), said.epistemic)
    assert np.allclose(classifier.score(near, "confidence"), 1.0 - said.probabilities.max(axis=1))
    with pytest.raises(ValueError, match="know a density"):
        classifier.score(near, "log_density")
    with pytest.raises(ValueError, match="score = 'best' must be one of total, epistemic"):
        classifier.score(near, "best")
    with pytest.raises(ValueError, match="score = 'confidence' must be one of epistemic, total"):
        regressor.score(near, "confidence")
    held_out = customers(800)[400:]
    model = fidgp.load(regressor.folder, device="cpu")
    model.calibrate(held_out, held_out["price"])
    assert np.array_equal(model.score(far), model.predict(far).ood_score)
