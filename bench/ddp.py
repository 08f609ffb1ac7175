"""Times a training step of the ResNet-18 of peers.py by one process, or by several with DistributedDataParallel over Gloo.

    torchrun --nproc-per-node 2 bench/ddp.py --batch 32 --steps 12      rank 0 prints one JSON object
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from peers import ResNet18


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32, help="the whole batch, of all processes")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.manual_seed(0)
    net = ResNet18()
    if size > 1:
        dist.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    part = arguments.batch // size
    x, y = torch.randn(part, 3, 32, 32), torch.randint(100, (part,))
    optimiser, samples = torch.optim.Adam(net.parameters(), lr=1e-5), []
    for _ in range(arguments.steps):
        started = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
        samples.append((time.perf_counter() - started) * 1e3)
    if rank == 0:
        print(json.dumps({"steps_ms": samples[2:]}))
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
