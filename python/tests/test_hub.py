"""A model folder is what the Hugging Face Hub takes, by its own library."""
import json

import fidgp
from conftest import SHIPPED
from huggingface_hub import ModelCard
from safetensors import safe_open


def checked(folder, task):
    """The card's metadata, the config and the tensors, read as the Hub reads them."""
    card = ModelCard.load(folder / "README.md")
    about = card.data.to_dict()
    assert about["library_name"] == "fidgp" and about["pipeline_tag"] == task and "uncertainty" in about["tags"]
    assert card.text.strip().startswith("# ")
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "fidgp" and config["architectures"]
    with safe_open(folder / "model.safetensors", "numpy") as weights:
        assert weights.metadata()["format"] == "pt" and len(list(weights.keys())) > 0
    return config


def test_the_shipped_model(tmp_path):
    config = checked(SHIPPED, "image-classification")
    assert len(config["id2label"]) == 100
    images = json.loads((SHIPPED / "preprocessor_config.json").read_text())
    assert images["crop_size"] == {"height": 32, "width": 32} and len(images["image_mean"]) == 3


def test_a_model_of_a_table(houses, tmp_path):
    checked(houses.save(tmp_path / "model"), "tabular-regression")
    assert fidgp.load(tmp_path / "model", device="cpu").target == "price"
