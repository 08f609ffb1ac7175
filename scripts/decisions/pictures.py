"""Writes test pictures as PNG files, one folder per class, in an order that is shuffled once: what `fidgp predict -` is given.

    pictures.py DATA OUT        DATA as the data sets' sites distribute it (cifar-100-binary, cifar-10-batches-bin, svhn)

all of CIFAR-100's test part; of CIFAR-10 and SVHN the first OTHER each; and CHANGED CIFAR-100 pictures with noise (deviation 25 of 255)."""
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import loadmat

OTHER, CHANGED, NOISE = 300, 300, 25


def cifar(file, labels):
    rows = np.frombuffer(file.read_bytes(), "u1").reshape(-1, labels + 3072)
    return rows[:, labels - 1], rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def keep(out, name, classes, pixels):
    files = []
    for row, (label, picture) in enumerate(zip(classes, pixels)):
        file = out / name / label / f"{row:05}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(file)
        files.append(str(file))
    return files


def main(data, out):
    random = np.random.default_rng(0)
    names = (data / "cifar-100-binary/fine_label_names.txt").read_text().split()
    labels, pixels = cifar(data / "cifar-100-binary/test.bin", 2)
    classes = [names[label] for label in labels]
    files = keep(out, "cifar100", classes, pixels)
    changed = random.choice(len(pixels), CHANGED, replace=False)
    noisy = np.clip(pixels[changed] + random.normal(0, NOISE, (CHANGED, 32, 32, 3)), 0, 255).astype("u1")
    lists = {"cifar100": [files[row] for row in random.permutation(len(files))]}
    lists["noise"] = keep(out, "noise", [classes[row] for row in changed], noisy)
    _, pixels = cifar(data / "cifar-10-batches-bin/test_batch.bin", 1)
    lists["cifar10"] = keep(out, "cifar10", ["none"] * OTHER, pixels)
    lists["svhn"] = keep(out, "svhn", ["none"] * OTHER, loadmat(data / "svhn/test_32x32.mat")["X"][..., :OTHER].transpose(3, 0, 1, 2))
    for name, files in lists.items():
        (out / f"{name}.txt").write_text("".join(f"{file}\n" for file in files))


main(Path(sys.argv[1]), Path(sys.argv[2]))
