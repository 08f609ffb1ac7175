"""fidgp and PyTorch in one process."""
import importlib.util
import os

import pytest
from conftest import SHIPPED, in_a_process

BOTH = f"""
{{imports}}
import numpy as np
x = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
model = fidgp.load({str(SHIPPED)!r}, device="cpu")
said = model.predict(torch.from_numpy(x))
a = torch.randn(64, 64, requires_grad=True)
(a @ a).sum().backward()
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
assert net(torch.randn(1, 3, 8, 8)).shape == (1, 4, 6, 6) and a.grad is not None
torch.set_num_threads(3)
again = model.predict(x)
assert torch.get_num_threads() == 3 and np.allclose(said.probabilities, again.probabilities, atol=1e-6)
loaded = {{{{line.split()[-1] for line in open("/proc/self/maps") if "libtorch_cpu.so" in line}}}}
assert len(loaded) == 1, loaded
print(loaded.pop())
"""

OTHER = "__version__ = '2.3.1+cpu'\n"


ASKED = bool(os.environ.get("FIDGP_PYTHON_TORCH"))  # who asks for these tests must not have them skipped


@pytest.mark.skipif(importlib.util.find_spec("torch") is None and not ASKED, reason="there is no PyTorch here")
@pytest.mark.parametrize("imports", ["import torch, fidgp", "import fidgp, torch", "import fidgp, fidgp.sklearn, torch"])
def test_both_orders_of_import(imports):
    done = in_a_process(BOTH.format(imports=imports))
    assert done.returncode == 0, done.stderr
    assert "site-packages/torch/lib/libtorch_cpu.so" in done.stdout


@pytest.fixture
def other(tmp_path):
    """What is seen of a PyTorch of another version."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(OTHER)
    (tmp_path / "torch" / "__init__.py").write_text("from .version import __version__\n")
    return tmp_path


LOAD = f"fidgp.load({str(SHIPPED)!r}, device='cpu')"


def test_another_version_that_comes_first_is_named(other):
    done = in_a_process(f"import torch, fidgp; print(fidgp.metrics.auroc([0.0], [1.0])); {LOAD}", other)
    assert done.returncode == 1 and done.stdout == "1.0\n"  # metrics need no libtorch
    assert "PyTorch 2.3.1+cpu cannot be used beside fidgp" in done.stderr


def test_another_version_that_comes_later_is_refused(other):
    asked = "from importlib.util import find_spec; print(find_spec('torch') is not None)"  # as some libraries ask
    done = in_a_process(f"import fidgp; {LOAD}; {asked}; import torch", other)
    assert done.returncode == 1 and done.stdout == "True\n"
    assert "PyTorch 2.3.1+cpu cannot be used in a process in which fidgp has opened a model" in done.stderr


def test_metrics_need_no_libtorch(tmp_path):
    code = f"""
import sys
import fidgp
from fidgp import _libtorch, conformal, metrics
def gone():
    raise ImportError("there is no libtorch here")
_libtorch.prepare = gone
assert metrics.auroc([0.1, 0.3], [0.3, 0.7]) == 0.875 and conformal.smallest_count(0.9) == 9
assert "libtorch" not in open("/proc/self/maps").read() and "fidgp._fidgp" not in sys.modules
try:
    {LOAD}
except ImportError as error:
    print("refused:", error)
"""
    done = in_a_process(code)
    assert done.returncode == 0 and "refused: there is no libtorch here" in done.stdout, done.stderr
