import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fidgp

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "models" / "cifar100-resnet18-fidgp"
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "fidgp"


def command(*arguments):
    """What the command says, as JSON."""
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_a_process(code, path=None, timeout=300, **variables):
    """Runs code in a process of its own, with a folder before all others to import from."""
    environment = {**os.environ, **variables, **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=timeout, check=False
    )


def config(table, **train):
    return {
        "name": "houses",
        "method": "fidgp",
        "seed": 1,
        "data": {"set": "table", "path": str(table), "target": "price"},
        "network": {"kind": "mlp", "hidden": [16], "activation": "tanh", "batch_norm": False},
        "inducing": {"inducing_rows": 8, "inducing_cols": 8, "posterior": {"family": "flow", "flow": {"kind": "diagonal"}}},
        "likelihood": {"kind": "gaussian", "noise": {"kind": "predicted"}},
        "train": {"epochs": 5, "batch_size": 32, "optimiser": {"kind": "adam", "learning_rate": 0.01}, **train},
        "predict": {"draws": 8},
    }


def rows(count=200, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(0.0, 1.0, size=(count, 2))
    return x, 3.0 * x[:, 0] - x[:, 1] + 0.1 * random.normal(size=count)


def write_table(path, x, y):
    lines = ["size,age,price", *(f"{float(a)!r},{float(b)!r},{float(c)!r}" for (a, b), c in zip(x, y))]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def houses(tmp_path_factory):
    """A model of a small table."""
    place = tmp_path_factory.mktemp("houses")
    write_table(place / "houses.csv", *rows())
    return fidgp.train(config(place / "houses.csv"), place / "run", device="cpu")


@pytest.fixture(scope="session")
def shipped():
    return fidgp.load(SHIPPED, device="cpu")


@pytest.fixture(scope="session")
def pictures():
    return np.random.default_rng(0).integers(0, 256, size=(5, 32, 32, 3), dtype=np.uint8)
