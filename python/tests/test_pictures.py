import warnings

import fidgp
import numpy as np
import pytest
from conftest import SHIPPED, command
from PIL import Image


def test_files_and_arrays_get_what_the_command_says(shipped, pictures, tmp_path):
    files = []
    for number, picture in enumerate(pictures):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).save(files[-1])
    wide = tmp_path / "wide.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(wide)
    files.append(wide)
    told = command("predict", SHIPPED, *files, "--json", "--top", 100, "--device", "cpu")["inputs"]
    of_files = shipped.predict(files)
    of_arrays = shipped.predict([np.asarray(Image.open(file)) for file in files])
    assert len(of_files) == len(told) == 6
    for row, one in enumerate(told):
        probabilities = np.zeros(100)
        for entry in one["top"]:
            probabilities[entry["index"]] = entry["probability"]
        assert np.abs(of_files.probabilities[row] - probabilities).max() < 1e-6
        assert np.abs(of_arrays.probabilities[row] - probabilities).max() < 1e-6
        for name in ("total", "aleatoric", "epistemic"):
            assert abs(getattr(of_files, name)[row] - one[name]) < 1e-6
        assert of_files.label[row] == one["class"] and of_files.draws[row] == one["draws"]


def test_a_model_says_what_it_is(shipped):
    assert len(shipped.classes) == 100 and shipped.kind == "classes" and shipped.features == []
    assert shipped.image == (3, 32, 32) and not shipped.calibrated
    assert repr(shipped).startswith("Model(fidgp, ") and "100 classes of pictures 3×32×32" in repr(shipped)


def test_layouts_of_arrays_mean_the_same(shipped, pictures):
    one = shipped.predict(pictures)
    first = shipped.predict(pictures.transpose(0, 3, 1, 2))
    assert np.array_equal(one.probabilities, first.probabilities)
    alone = shipped.predict(pictures[0])
    assert np.abs(alone.probabilities - one.probabilities[:1]).max() < 1e-6
    image = shipped.predict(Image.fromarray(pictures[0]))
    assert np.array_equal(image.probabilities, alone.probabilities)
    grey = shipped.predict(pictures[0, :, :, 0])
    repeated = shipped.predict(np.repeat(pictures[0, :, :, :1], 3, axis=2))
    assert np.array_equal(grey.probabilities, repeated.probabilities)


def test_more_pictures_than_a_batch(shipped, pictures):
    many = np.concatenate([pictures] * 14)  # 70, in batches of 64 and 6
    said = shipped.predict(many, draws=1)
    assert said.probabilities.shape == (70, 100) and len(said.label) == 70
    assert np.allclose(said.probabilities.sum(axis=1), 1.0, atol=1e-5)
    assert set(said.draws.tolist()) == {256}  # of the logits, in one pass: its posterior draws no weights


def test_results_become_plain_values(shipped, pictures):
    said = shipped.predict(pictures[:2], draws=2)
    plain = said.to_dict()
    assert plain["probabilities"] == said.probabilities.tolist() and "sets" not in plain
    assert repr(said).startswith("ClassPredictions(2 predictions; ")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.zeros((2, 32, 32, 3)), "uint8"),
        (np.zeros((32, 32, 5), dtype=np.uint8), "channels"),
        (np.zeros((0, 32, 32, 3), dtype=np.uint8), "no pixels"),
        ([], "no pictures"),
        (np.zeros((1, 1, 1, 32, 32, 3), dtype=np.uint8), "a picture is"),
    ],
)
def test_what_is_no_picture_is_refused(shipped, wrong, words):
    with pytest.raises(ValueError, match=words):
        shipped.predict(wrong)


def test_what_cannot_be_is_refused(shipped, pictures, tmp_path):
    with pytest.raises(ValueError, match="draws = 0"):
        shipped.predict(pictures, draws=0)
    with pytest.raises(ValueError, match="too large"):
        shipped.predict(pictures, draws=2**50)
    with pytest.raises(ValueError, match="none.png"):
        shipped.predict(tmp_path / "none.png")
    with pytest.raises(ValueError, match="neither a run folder"):
        fidgp.load(tmp_path)
    with pytest.raises(ValueError, match="cuda:99"):
        fidgp.load(SHIPPED, device="cuda:99")


def test_rules_are_fitted_used_and_saved(tmp_path):
    model = fidgp.load(SHIPPED, device="cpu")
    random = np.random.default_rng(3)
    x = random.integers(0, 256, size=(60, 32, 32, 3), dtype=np.uint8)
    y = model.predict(x).index
    y[::4] = 7
    found = model.calibrate(x, y, levels=[0.8])
    assert found["examples"]["fitted"] == 48 and found["check"] and model.calibrated
    said = model.predict(x[:3])
    assert said.sets[0.8].shape == (3, 100) and said.decision.shape == (3,) and len(said.reason) == 3
    assert ((said.ood_p >= 0) & (said.ood_p <= 1)).all()
    assert said.to_dict()["sets"]["0.8"] == said.sets[0.8].tolist()
    with pytest.warns(UserWarning, match="leave draws"):
        model.predict(x[:1], draws=1)
    again = fidgp.load(model.save(tmp_path / "model"), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = again.predict(x[:3])
    assert again.calibrated and np.array_equal(kept.probabilities, said.probabilities)
    assert kept.decision.tolist() == said.decision.tolist() and np.array_equal(kept.sets[0.8], said.sets[0.8])
    with pytest.raises(ValueError, match="overwrite=True"):
        model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="60 examples and y has 2"):
        model.calibrate(x, [0, 1])
    with pytest.raises(ValueError, match="counted from 0"):
        model.calibrate(x[:1], [100])
    with pytest.raises(ValueError, match="`level`"):
        model.calibrate(x, y, level=0.8)
