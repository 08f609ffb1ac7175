"""A small network for examples/energy.csv, as PyTorch exports it: python examples/energy.py (torch, onnx and onnxscript from PyPI)."""
from pathlib import Path

import torch

torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
torch.onnx.export(network.eval(), (torch.zeros(2, 8),), str(Path(__file__).with_name("energy.onnx")), dynamo=True, optimize=False,
                  dynamic_shapes=({0: torch.export.Dim("batch", min=1)},), external_data=False)
