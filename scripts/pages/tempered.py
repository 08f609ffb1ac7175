"""What a temperature does for the main row and for what it is compared with; scripts/readme prints it."""
import statistics

from pages.records import made_by, read, spread
from pages.rivals import METRICS, confidence

NETWORKS = [
    ("deterministic", "deterministic, SGD, 100 epochs"),
    ("deterministic-longer", "deterministic, 30 more epochs"),
    ("fidgp-all", "**FiD-GP on all layers, 128×128**, 30 epochs"),
]


def runs_of(name, tempered="", place=""):
    return read(f"cifar100/{place}temperature-{name}-s[0-9]{tempered}.json")


def mean(runs, metric, factor=1):
    return statistics.mean(run["metrics"][metric] for run in runs) * factor


def tempered():
    """One row for each network without a temperature, and one with it."""
    rows = ["| CIFAR-100, ResNet-18, 45,000 training images, test | temperature | accuracy % | NLL | ECE % | Brier score | AURC | seeds | commit |", "|---" * 9 + "|"]
    cells = lambda runs: [spread(runs, *metric) for metric in [*METRICS, ("cls/Brier", 1, 3), ("sc/AURC", 1, 4)]]
    for name, label in NETWORKS:
        temperatures = [one["temperature"] for one in read(f"cifar100/temperature/temperature-{name}-s[0-9].json")]
        with_it = runs_of(name, "-tempered")
        rows.append(f"| {label} | 1 | " + " | ".join(cells(runs_of(name))) + f" | {made_by(runs_of(name))} |")
        rows.append(f"| … with a temperature | {' / '.join(f'{one:.2f}' for one in temperatures)} | " + " | ".join(cells(with_it)) + f" | {made_by(with_it)} |")
    return rows


def tempered_said():
    """The same in a sentence."""
    change = lambda name, metric, factor, digits: f"{mean(runs_of(name), metric, factor):.{digits}f} → {mean(runs_of(name, '-tempered'), metric, factor):.{digits}f}"
    every = lambda metric, factor, digits: "; ".join(f"{label} {change(name, metric, factor, digits)}" for name, label in (("deterministic", "deterministic"), ("deterministic-longer", "30 more epochs"), ("fidgp-all", "FiD-GP")))
    return f"**Temperature scaling**, fitted on 5,000 held-out images for networks trained on the other 45,000, changes NLL and ECE. NLL: {every('cls/NLL', 1, 3)}. ECE %: {every('cal/ECE', 100, 2)}."


def tempered_more():
    """What the table says, and how far a training repeats itself."""
    gap = lambda metric, factor, other: mean(runs_of("fidgp-all", "-tempered"), metric, factor) - mean(runs_of(other, "-tempered"), metric, factor)
    beside = lambda other: f"{gap('cls/Acc', 100, other):+.2f} % accuracy, {gap('cls/NLL', 1, other):+.3f} NLL, {gap('cal/ECE', 100, other):+.2f} % ECE"
    sure = lambda end: confidence(f"temperature-fidgp-all-s[0-9]{end}")
    again = lambda end: " / ".join(spread(runs_of("deterministic", end, "earlier/"), *metric) for metric in METRICS)
    return f"`scripts/cifar100 temperature` trains these networks with the recipe of the main row. `fidgp calibrate` fits the temperatures on images that none of them was trained on. With temperatures FiD-GP has {beside('deterministic')} against the deterministic network, and {beside('deterministic-longer')} against 30 more epochs of it. FiD-GP's temperature is below 1: sharper probabilities have a lower NLL but, on test images, a higher ECE (mean confidence {sure('')} % without and {sure('-tempered')} % with a temperature, accuracy {mean(runs_of('fidgp-all'), 'cls/Acc', 100):.1f} %). All start from one deterministic network, so ± does not include the effect of another start. An earlier training of that network with the same command, whose weights were lost, had {again('')}, and {again('-tempered')} with its temperature (accuracy, NLL, ECE)."
