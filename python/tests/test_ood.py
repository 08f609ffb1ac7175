"""The scores of `fidgp ood`, from Python."""
import shutil

import fidgp
import numpy as np
import pytest
from conftest import ROOT, SHIPPED, command
from safetensors.numpy import load_file

FIXTURES = ROOT / "crates/fidgp-cli/tests/fixtures"
PICTURES = FIXTURES / "cifar100-pictures"


@pytest.fixture(scope="module")
def benchmarked(tmp_path_factory):
    """A model whose folder has statistics, and what the command says of some pictures."""
    folder = tmp_path_factory.mktemp("model") / "copy"
    shutil.copytree(SHIPPED, folder)
    words = ["--data", FIXTURES / "cifar100-small", "--ood", PICTURES, "--out", folder.parent / "ood"]
    command("ood", folder, *words, "--limit", 40, "--device", "cpu", "--unsafe-skip-controls", "--json")
    return fidgp.load(folder, device="cpu"), load_file(folder.parent / "ood/scores/cifar100-pictures.safetensors")


def test_scores_are_those_of_the_command(benchmarked):
    model, told = benchmarked
    files = sorted(PICTURES.glob("*.png"))
    for name in ("energy", "knn", "mahalanobis", "vim", "residual", "variance+energy"):
        assert np.allclose(model.score(files, name), told[name], rtol=1e-4, atol=1e-4), name


def test_what_has_no_such_score_says_so(benchmarked, shipped, pictures):
    model, _ = benchmarked
    with pytest.raises(ValueError, match="one of total, epistemic, .*energy"):
        model.score(pictures, "surprise")
    with pytest.raises(ValueError, match="draws = 2 is for total"):
        model.score(pictures, "knn", draws=2)
    with pytest.raises(ValueError, match="no statistics of the training images"):
        shipped.score(pictures, "knn")
