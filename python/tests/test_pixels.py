"""Models that give every pixel a class."""
import fidgp
import numpy as np
import pytest
from conftest import command
from PIL import Image

CONFIG = {
    "name": "shapes",
    "method": "fidgp",
    "seed": 1,
    "data": {"set": "segmentation", "layout": "masks", "path": "shapes", "classes": ["ground", "red"], "crop": [32, 32]},
    "network": {"kind": "fcn", "depth": 18, "width": 4},
    "inducing": {"layers": ["backbone.layer4.1.conv2"], "inducing_rows": 8, "inducing_cols": 8},
    "likelihood": {"kind": "pixels"},
    "train": {"epochs": 1, "batch_size": 4, "optimiser": {"kind": "adam", "learning_rate": 0.01}},
    "predict": {"draws": 3},
}


def picture(number):
    """Grey ground with a red square, and its classes."""
    image, mask = Image.new("RGB", (48, 40), (90, 90, 90)), Image.new("L", (48, 40), 0)
    corner = (2 + number * 7 % 20, 3 + number * 5 % 18)
    for canvas, colour in ((image, (210, 80, 80)), (mask, 1)):
        canvas.paste(colour, (*corner, corner[0] + 14, corner[1] + 14))
    return image, mask


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    place, number = tmp_path_factory.mktemp("shapes"), 0
    for part, count in (("train", 8), ("val", 2), ("test", 2)):
        for kind in ("images", "masks"):
            (place / "shapes" / kind / part).mkdir(parents=True)
        for _ in range(count):
            for kind, image in zip(("images", "masks"), picture(number)):
                image.save(place / "shapes" / kind / part / f"{number:02}.png")
            number += 1
    return fidgp.train(CONFIG, place / "run", data=place, device="cpu", threads=1)


def test_pixels_get_what_the_command_says(shapes, tmp_path):
    files = [tmp_path / "one.png", tmp_path / "wide.png"]
    picture(3)[0].save(files[0])
    picture(4)[0].resize((70, 33)).save(files[1])
    told = command("predict", shapes.folder, *files, "--json", "--device", "cpu", "--maps", tmp_path / "maps")["inputs"]
    said = shapes.predict(files)
    arrays = shapes.predict([np.asarray(Image.open(file)) for file in files])
    assert len(said) == len(told) == 2 and [one.shape for one in said.label_map] == [(40, 48), (33, 70)]
    for row, one in enumerate(told):
        for name in ("total", "aleatoric", "epistemic"):
            assert abs(getattr(said, name)[row] - one[name]) < 1e-6, name
            assert abs(getattr(said, f"{name}_map")[row].mean() - one[name]) < 1e-5, name
        for entry in one["top"]:
            assert abs(said.shares[row, entry["index"]] - entry["share"]) < 1e-9
        counted = np.bincount(said.label_map[row].ravel(), minlength=2) / said.label_map[row].size
        assert np.allclose(counted, said.shares[row])
        assert np.array_equal(arrays.label_map[row], said.label_map[row])
        assert (said.probability_map[row] > 0.5 - 1e-6).all() and (said.probability_map[row] <= 1 + 1e-6).all()
    assert said.draws.tolist() == [3, 3] and shapes.predict(files[0], draws=2).draws.tolist() == [2]


def test_a_segmentation_says_what_it_is(shapes):
    assert shapes.kind == "pixels" and shapes.takes == "pictures" and shapes.image is None and shapes.features == []
    assert "2 classes of pixels" in repr(shapes) and shapes.classes == ["ground", "red"]


def test_pictures_are_scored_by_means_over_pixels(shapes):
    x = np.stack([np.asarray(picture(number)[0]) for number in range(2)])
    said = shapes.predict(x)
    assert np.allclose(shapes.score(x), said.total) and np.allclose(shapes.score(x, "epistemic"), said.epistemic)
    plain = said.to_dict()
    assert plain["label_map"][0] == said.label_map[0].tolist() and len(plain["shares"]) == 2
    assert repr(said).startswith("PixelPredictions(2 predictions; ")


def test_what_a_segmentation_cannot_do_is_said(shapes, tmp_path):
    x = np.asarray(picture(0)[0])
    with pytest.raises(ValueError, match="give a segmentation its draws"):
        shapes.predict(x, tolerance=0.1)
    with pytest.raises(ValueError, match="not for segmentations"):
        shapes.calibrate(x, [0])
    with pytest.raises(ValueError, match="total, epistemic"):
        shapes.score(x, "confidence")
    with pytest.raises(ValueError, match="uint8"):
        shapes.predict(x / 255.0)
    again = fidgp.load(shapes.save(tmp_path / "model"), device="cpu")
    assert np.array_equal(again.predict(x).label_map[0], shapes.predict(x).label_map[0])
