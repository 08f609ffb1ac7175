"""What fidgp is timed against: ResNet-18 for 32x32 images in plain PyTorch, with ordinary weights and with FFG-U weights.

The FFG-U layers are written the way a user of such layers writes them: every layer computes its own factors and draws its own
weight, one after the other, with PyTorch's own operations. Nothing is batched over layers and nothing is fused.

    python bench/peers.py --device cpu --batch 32 --draws 8 --rounds 5      prints one JSON object
"""
import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn


class InducingWeight(nn.Module):
    """q(U) Gaussian and elementwise, p(U) with a Kronecker covariance, W drawn by Matheron's rule."""

    def __init__(self, d_out, d_in, size, prior_sd=1.0, max_lamda=0.03, max_sd=0.1):
        super().__init__()
        rows, cols = min(size, d_out), min(size, d_in)
        self.z_row = nn.Parameter(torch.randn(rows, d_out) / rows**0.5)
        self.z_col = nn.Parameter(torch.randn(cols, d_in) / cols**0.5)
        self.d_row = nn.Parameter(torch.full((rows,), -6.9))
        self.d_col = nn.Parameter(torch.full((cols,), -6.9))
        self.mean = nn.Parameter(torch.randn(rows, cols))
        self.raw_sd = nn.Parameter(torch.full((rows, cols), -4.6))
        self.raw_lamda = nn.Parameter(torch.tensor(-3.4))
        self.scale, self.max_lamda, self.max_sd = prior_sd / d_in**0.5, max_lamda, max_sd

    @staticmethod
    def cholesky(matrix):
        jitter = 1e-5 * matrix.detach().diagonal().mean()
        return torch.linalg.cholesky(matrix + jitter * torch.eye(len(matrix), device=matrix.device))

    def forward(self):
        d_row, d_col = F.softplus(self.d_row), F.softplus(self.d_col)
        gram_row, gram_col = self.z_row @ self.z_row.T, self.z_col @ self.z_col.T
        l_row, l_col = self.cholesky(gram_row + d_row.square().diag()), self.cholesky(gram_col + d_col.square().diag())
        sd = self.max_sd * torch.sigmoid(self.raw_sd)
        lamda = self.max_lamda * torch.sigmoid(self.raw_lamda)
        u = l_row @ (self.mean + sd * torch.randn_like(sd)) @ l_col.T
        e1 = torch.randn(self.z_row.shape[1], self.z_col.shape[1], device=u.device)
        e2, e3, e4 = torch.randn(3, *u.shape, device=u.device)
        prior_u = (
            self.z_row @ e1 @ self.z_col.T
            + self.cholesky(gram_row) @ e2 * d_col
            + d_row[:, None] * (e3 @ self.cholesky(gram_col).T)
            + d_row[:, None] * e4 * d_col
        )
        t_row = torch.cholesky_solve(self.z_row, l_row).T
        t_col = torch.cholesky_solve(self.z_col, l_col)
        weight = t_row @ u @ t_col + lamda * (e1 - t_row @ prior_u @ t_col)
        kl_u = (0.5 * (sd.square() + self.mean.square() - 1) - sd.log()).sum()
        kl_w = e1.numel() * (0.5 * lamda.square() - lamda.log() - 0.5)
        return self.scale * weight, kl_u + kl_w


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, size):
        super().__init__()
        self.shape, self.stride = (outputs, inputs, kernel, kernel), stride
        self.kl = 0.0
        if size:
            self.drawn = InducingWeight(outputs, inputs * kernel * kernel, size)
        else:
            self.weight = nn.Parameter(torch.randn(self.shape) * (2 / (outputs * kernel * kernel)) ** 0.5)

    def forward(self, x):
        if hasattr(self, "drawn"):
            weight, self.kl = self.drawn()
            return F.conv2d(x, weight.view(self.shape), stride=self.stride, padding=self.shape[2] // 2)
        return F.conv2d(x, self.weight, stride=self.stride, padding=self.shape[2] // 2)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, size):
        super().__init__()
        self.conv1, self.bn1 = Conv(inputs, outputs, 3, stride, size), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = Conv(outputs, outputs, 3, 1, size), nn.BatchNorm2d(outputs)
        self.short = None
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(Conv(inputs, outputs, 1, stride, size), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class Head(nn.Module):
    def __init__(self, inputs, outputs, size):
        super().__init__()
        self.kl = 0.0
        self.plain = None if size else nn.Linear(inputs, outputs)
        if size:
            self.drawn = InducingWeight(outputs, inputs + 1, size)

    def forward(self, x):
        if self.plain is not None:
            return self.plain(x)
        weight, self.kl = self.drawn()
        return F.linear(x, weight[:, :-1], weight[:, -1])


class ResNet18(nn.Module):
    """`size` is that of the inducing matrices; 0 for ordinary weights."""

    def __init__(self, size=0, classes=100):
        super().__init__()
        widths = [64, 64, 128, 256, 512]
        self.stem, self.bn = Conv(3, 64, 3, 1, size), nn.BatchNorm2d(64)
        blocks = []
        for stage in range(4):
            blocks.append(Block(widths[stage], widths[stage + 1], 2 if stage else 1, size))
            blocks.append(Block(widths[stage + 1], widths[stage + 1], 1, size))
        self.blocks, self.head = nn.Sequential(*blocks), Head(512, classes, size)

    def forward(self, x):
        h = self.blocks(F.relu(self.bn(self.stem(x))))
        return self.head(h.mean((2, 3)))

    def kl(self):
        return sum(module.kl for module in self.modules() if isinstance(module, (Conv, Head)))


def measure(work, device, rounds):
    cuda = device.startswith("cuda")
    wait = torch.cuda.synchronize if cuda else lambda: None
    for _ in range(3):
        work()
    wait()
    started = time.perf_counter()
    work()
    wait()
    # a launch costs little next to a wait: many repetitions of what is short, one of what is long
    repeats = max(1, min(10, int(0.25 / (time.perf_counter() - started)))) if cuda else 1
    samples = []
    for _ in range(rounds):
        wait()
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        wait()
        samples.append((time.perf_counter() - started) * 1e3 / repeats)
    return samples


def memory(cuda):
    """Bytes in use: on the GPU by whoever uses it, on the CPU by this process, the highest so far."""
    if cuda:
        free, total = torch.cuda.mem_get_info()
        return total - free
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=0, help="inducing size; 0: ordinary weights")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    device, cuda = arguments.device, arguments.device.startswith("cuda")
    torch.backends.cudnn.benchmark = True
    torch.zeros(1, device=device)
    before = memory(cuda)
    net = ResNet18(arguments.size).to(device)
    x = torch.randn(arguments.batch, 3, 32, 32, device=device)
    if cuda:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    y = torch.randint(100, (arguments.batch,), device=device)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-5)

    def train():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=cuda and not arguments.size):
            loss = F.cross_entropy(net(x).float(), y) + net.kl() / 50_000
        loss.backward()
        optimiser.step()

    def predict():
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=cuda and not arguments.size):
            draws = arguments.draws if arguments.size else 1
            return torch.stack([net(x).softmax(-1) for _ in range(draws)]).mean(0)

    times = {"train step": measure(train, device, arguments.rounds)}
    times["train_bytes"] = memory(cuda) - before
    net.eval()
    times["predict"] = measure(predict, device, arguments.rounds)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
