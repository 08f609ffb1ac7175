import os
import signal
import threading
import time

import fidgp
import numpy as np
import pandas
import pytest
from conftest import command, config, in_a_process, rows, write_table


def test_rows_get_what_the_command_says(houses, tmp_path):
    x, y = rows(50, seed=5)
    write_table(tmp_path / "new.csv", x, y)
    told = command("predict", houses.folder, tmp_path / "new.csv", "--json", "--device", "cpu")["inputs"]
    said = houses.predict(x)
    for name in ("mean", "sd", "aleatoric", "epistemic"):
        assert np.abs(getattr(said, name) - [one[name] for one in told]).max() < 1e-6
    assert said.out_of_range == [one["out_of_range"] for one in told]


def test_a_model_says_what_it_is(houses):
    assert houses.features == ["size", "age"] and houses.target == "price" and houses.classes == []
    assert houses.kind == "numbers" and houses.image is None
    assert "price from 2 features, 8 draws" in repr(houses)


def test_columns_are_found_by_name(houses):
    x, _ = rows(5)
    plain = houses.predict(x)
    frame = pandas.DataFrame({"street": list("abcde"), "age": x[:, 1], "size": x[:, 0]})
    assert np.array_equal(houses.predict(frame).mean, plain.mean)
    with pytest.raises(ValueError, match="no column 'age'; its columns are street, size"):
        houses.predict(frame.drop(columns="age"))
    with pytest.raises(ValueError, match="several columns 'age'"):
        houses.predict(frame.rename(columns={"street": "age"}))


def test_what_has_an_array_is_an_array(houses):
    x, _ = rows(3)

    class Given:
        def __array__(self, dtype=None, copy=None):
            return x

    class Lent:
        def __dlpack__(self, **settings):
            return x.__dlpack__(**settings)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    plain = houses.predict(x).mean
    for given in (Given(), Lent(), x.tolist(), np.asfortranarray(x)):
        assert np.array_equal(houses.predict(given).mean, plain)
    assert np.allclose(houses.predict(x.astype(np.float32)).mean, plain, atol=1e-5)
    assert houses.predict(x[0]).mean.shape == (1,)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.zeros((2, 3)), "3 columns, the model takes 2: size, age"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros((1, 1, 2)), "2 dimension"),
        ([["a", "b"]], "no numbers"),
        ([[np.nan, 0.0]], "row 0, column 0 holds NaN"),
    ],
)
def test_what_are_no_rows_is_refused(houses, wrong, words):
    with pytest.raises(ValueError, match=words):
        houses.predict(wrong)


def test_intervals_hold_what_they_promise(houses, tmp_path):
    model = fidgp.load(houses.folder, device="cpu")
    x, y = rows(400, seed=8)
    found = model.calibrate(x, y, levels=[0.9], wrong_beyond=10.0)
    assert found["rules"]["intervals"][0]["level"] == 0.9
    new, truth = rows(2000, seed=9)
    ends = model.predict(new).intervals[0.9]
    assert 0.85 < np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) < 0.95
    far = model.predict([[100.0, 0.5]])
    assert far.decision.tolist() == ["out-of-distribution"] and "size = 100" in far.out_of_range[0][0]
    again = fidgp.load(model.save(tmp_path / "model"), device="cpu")
    assert np.array_equal(again.predict(new[:5]).intervals[0.9], ends[:5])
    with pytest.raises(ValueError, match="holds a run"):
        model.save(houses.folder)


def test_threads_share_a_model_without_the_gil(houses):
    x, _ = rows(20_000, seed=2)
    expected, found, turns = houses.predict(x).mean, [], 0

    def work():
        found.append(houses.predict(x, draws=8).mean)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        turns += 1
        time.sleep(0.001)
    assert turns > 3 and len(found) == 3 and all(np.array_equal(one, expected) for one in found)


def test_training_is_stopped_and_goes_on(tmp_path):
    write_table(tmp_path / "houses.csv", *rows())
    run = tmp_path / "run"

    def interrupt():
        while not (run / "metrics.jsonl").exists():  # until it trains
            time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    sent = []
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fidgp.train(config(tmp_path / "houses.csv", epochs=1_000_000), run, device="cpu")
    assert time.monotonic() - sent[0] < 30.0
    text = (run / "run.toml").read_text()
    assert "epochs = 1000000" in text
    assert fidgp.load(run, device="cpu").predict([[0.5, 0.5]]).sd[0] > 0  # what was trained so far
    with pytest.raises(ValueError):
        fidgp.train(config(tmp_path / "houses.csv"), run, device="cpu")  # another config in the same folder


def test_a_finished_run_goes_on_to_the_same_model(houses):
    again = fidgp.train(None, houses.folder, device="cpu")
    x, _ = rows(4)
    assert np.array_equal(again.predict(x).mean, houses.predict(x).mean)


def test_what_cannot_be_trained_is_refused(tmp_path):
    write_table(tmp_path / "houses.csv", *rows())
    good = config(tmp_path / "houses.csv")
    with pytest.raises(ValueError, match="epocs"):
        fidgp.train({**good, "train": {**good["train"], "epocs": 3}}, tmp_path / "run")
    with pytest.raises(ValueError, match="cannot hold"):
        fidgp.train({**good, "seed": object()}, tmp_path / "run")
    with pytest.raises(ValueError, match="threads = 0"):
        fidgp.train(good, tmp_path / "run", threads=0)
    with pytest.raises((ValueError, OSError), match="gone.csv"):
        fidgp.train(config(tmp_path / "gone.csv"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_config_may_be_a_file(tmp_path):
    write_table(tmp_path / "houses.csv", *rows())
    file = tmp_path / "curve.toml"
    file.write_text(
        """
        name = "houses"
        method = "deterministic"
        data = { set = "table", path = "houses.csv" }
        network = { kind = "mlp", hidden = [4], activation = "relu", batch_norm = false }
        likelihood = { kind = "gaussian", noise = { kind = "fixed", sd = 0.1 } }
        train = { epochs = 1, batch_size = 32, optimiser = { kind = "adam", learning_rate = 0.01 } }
        """
    )
    model = fidgp.train(file, tmp_path / "run", data=tmp_path, device="cpu")
    assert model.method == "deterministic" and model.predict([[0.1, 0.2]]).epistemic[0] == 0.0


def test_importing_is_quick_and_pulls_in_nothing_large():
    done = in_a_process("import sys, fidgp; print([n for n in ('torch', 'sklearn', 'pandas', 'fidgp._fidgp') if n in sys.modules])")
    assert done.returncode == 0 and done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(("said", "turns"), [({}, "1000"), ({"GOMP_SPINCOUNT": "77"}, "77")])
def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise(said, turns, monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    code = (
        "import os; before = dict(os.environ); import fidgp; fidgp._libtorch.compiled(); assert dict(os.environ) == before"
    )
    done = in_a_process(code, OMP_DISPLAY_ENV="VERBOSE", **said)
    assert done.returncode == 0 and f"GOMP_SPINCOUNT = '{turns}'" in done.stderr, done.stderr
