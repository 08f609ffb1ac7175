"""A trained network of another framework, made Bayesian."""
import fidgp
import numpy as np
import pytest
from conftest import ROOT, command

GRAPH = ROOT / "crates" / "fidgp-onnx" / "tests" / "fixtures" / "pictures.dynamo.onnx"
DATA = ROOT / "crates" / "fidgp-cli" / "tests" / "fixtures" / "cifar100-small"
SMALL = {
    "data.name": "cifar100",
    "normalisation": "imagenet",
    "inducing.inducing_rows": 4,
    "inducing.inducing_cols": 4,
    "start.statistics_images": 0,
    "train.epochs": 1,
    "train.batch_size": 20,
    "predict.draws": 3,
}


def told(*arguments):
    changes = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    return command("wrap", GRAPH, *changes, "--data", DATA, "--device", "cpu", "--threads", 1, "--json", *arguments)


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    run = tmp_path_factory.mktemp("wrapped") / "run"
    return fidgp.wrap(GRAPH, run, settings=SMALL, data=DATA, device="cpu", threads=1)


def test_a_graph_is_wrapped_as_the_command_does_it(wrapped):
    expected = told()
    assert wrapped.report["stages"] == expected["stages"] and len(wrapped.report["stages"]) == 3
    assert wrapped.report["start"] == expected["start"]


def test_it_predicts_and_is_trained_on(wrapped, pictures):
    said = wrapped.model.predict(pictures)
    assert said.probabilities.shape == (5, 100) and (said.epistemic >= 0).all() and said.draws.tolist() == [3] * 5
    before = said.probabilities
    model = fidgp.train(None, wrapped.model.folder, data=DATA, device="cpu", threads=1)
    assert not np.allclose(model.predict(pictures).probabilities, before)


def test_a_config_may_bring_the_network(wrapped, tmp_path):
    config = {**wrapped.report["config"], "name": "again"}
    del config["start"]
    again = fidgp.wrap(without_none(config), tmp_path / "run", weights=GRAPH, data=DATA, device="cpu", threads=1)
    assert again.report["stages"][0] == wrapped.report["stages"][0]


def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(one) for key, one in value.items() if one is not None}
    return [without_none(one) for one in value] if isinstance(value, list) else value


def test_what_cannot_be_wrapped_is_refused(wrapped, tmp_path):
    with pytest.raises(ValueError, match="a graph does not say what it is for"):
        fidgp.wrap(GRAPH, tmp_path / "run", data=DATA)
    with pytest.raises((ValueError, OSError), match="gone.onnx"):
        fidgp.wrap(tmp_path / "gone.onnx", tmp_path / "run", settings=SMALL, data=DATA)
    with pytest.raises(ValueError, match="nothing to wrap"):
        fidgp.wrap(GRAPH, tmp_path / "run", settings={**SMALL, "method": "deterministic"}, data=DATA)
    with pytest.raises(OSError, match="gone.toml"):
        fidgp.wrap(tmp_path / "gone.toml", tmp_path / "run")
    with pytest.raises(ValueError, match="epocs"):
        fidgp.wrap(GRAPH, tmp_path / "run", settings={**SMALL, "train.epocs": 1}, data=DATA)
    assert not (tmp_path / "run").exists()
    before = (wrapped.model.folder / "run.toml").read_bytes()
    with pytest.raises(ValueError):
        fidgp.wrap(GRAPH, wrapped.model.folder, settings=SMALL, data=DATA)  # the folder is taken
    assert (wrapped.model.folder / "run.toml").read_bytes() == before
