"""What README.md shows of the results: one table of quality, one of speed, the limits; scripts/readme prints them."""
import statistics

from pages.cifar import cifar_rows
from pages.ood import areas, best_other
from pages.records import read, spread
from pages.rivals import mean
from pages.speed import ALL, FOUR, TORCH, timed
from pages.tempered import mean as mean_of, runs_of
from pages.uci import lowest_places

OURS, LONGER = "fidgp-all-pretrained-own-s*", "deterministic-sgd-longer-s*"
ROWS = [
    ("deterministic-sgd-s*", "Deterministic, 100 epochs"),
    (LONGER, "Deterministic, 30 more epochs"),
    ("deterministic-sgd-width-44-s*", "Deterministic, narrower: as many parameters as FiD-GP"),
    (OURS, "**FiD-GP on all layers, 128×128**: first row, then 30 epochs"),
]


def quality():
    """The main rows on CIFAR-100, without commits."""
    head = ["| CIFAR-100, ResNet-18, test set | parameters | accuracy % | NLL | ECE % | seeds |", "|---|---|---|---|---|---|"]
    without_commit = lambda row: row.rsplit(" | ", 1)[0] + " |"
    return [*head, *map(without_commit, cifar_rows(ROWS)), "| FiD-GP as published, trained from scratch | 5.51 M | 76.11 | 0.92 | 3.60 | 42 |"]


def quality_said():
    """What the table means, with a temperature and without."""
    gap = lambda metric, factor=1: mean(OURS, metric, factor) - mean(LONGER, metric, factor)
    after = lambda metric, factor=1: mean_of(runs_of("fidgp-all", "-tempered"), metric, factor) - mean_of(runs_of("deterministic-longer", "-tempered"), metric, factor)
    size = read(f"cifar100/{OURS}.json")[0]["cost"]["parameters"] / read(f"cifar100/{LONGER}.json")[0]["cost"]["parameters"]
    return (
        f"Mean ± standard deviation over seeds; 8 weight draws. The second row is the fair comparison. Against it FiD-GP has {size * 100:.0f} % of the parameters, "
        f"{gap('cls/NLL'):+.3f} NLL, {gap('cal/ECE', 100):+.2f} ECE and {gap('cls/Acc', 100):+.2f} accuracy; with temperature scaling of both "
        f"{after('cls/NLL'):+.3f}, {after('cal/ECE', 100):+.2f} and {after('cls/Acc', 100):+.2f}. "
        "Records: [`results/cifar100`](results/cifar100). [All results](docs/results.md)."
    )


def speed():
    """The time of a training step and of a prediction on the GPU."""
    names = [("PyTorch, FFG-U 128 on all layers", "FFG-U on all layers, PyTorch"), ("fidgp, deterministic", "deterministic, fidgp"), ("fidgp, FFG-U 128 on all layers", "FFG-U on all layers, fidgp"), (ALL, "**FiD-GP on all layers, fidgp**"), (FOUR, "FiD-GP on four layers, fidgp")]
    rows = ["| ResNet-18 on an H200, batch 128, PyTorch deterministic = 1 | training step | prediction, 8 new draws | prediction, 8 stored draws | training memory |", "|---|---|---|---|---|"]
    ratio = lambda name, what: timed("cuda-batch128", name, what)[0] / timed("cuda-batch128", TORCH, what)[0]
    return rows + [f"| {label} | " + " | ".join(f"{ratio(name, what):.2f}" for what in ("train", "predict", "kept", "bytes")) + " |" for name, label in names]


def speed_said():
    return "Ratios; lower is better. fidgp replays CUDA graphs; PyTorch runs eagerly, without `torch.compile`. Records: [`results/bench`](results/bench). [All timings](docs/speed.md)."


def limits():
    """Honest negative results, each with its number."""
    cell = lambda pattern, *metric: spread(read(f"cifar100/{pattern}.json"), *metric)
    outside = [run["metrics"]["reg/EpistemicSD_outside_ratio"] for key in ("left", "right") for run in read(f"regression/regression-{key}-fidgp-s*.json")]
    ood = lambda pattern: read(f"ood/{pattern}.json")
    near = lambda pattern, score: statistics.mean(areas(run)[0][score]["cifar10"] for run in ood(pattern))
    best = lambda pattern: statistics.mean(areas(run)[1][best_other(run)] for run in ood(pattern))
    chosen = statistics.mean(areas(run)[1]["chosen"] for run in ood("fidgp-all-own-s*"))
    first, of = lowest_places("FiD-GP")
    kept, new = (timed("cuda-batch128", ALL, what)[0] / timed("cuda-batch128", "fidgp, deterministic", what)[0] for what in ("kept", "predict"))
    return [
        f"- **Accuracy matters most.** The plain network with as many epochs is more accurate ({cell(LONGER, 'cls/Acc', 100, 2)} against {cell(OURS, 'cls/Acc', 100, 2)} %) and ranks its errors better (AURC {cell(LONGER, 'sc/AURC', 1, 4)} against {cell(OURS, 'sc/AURC', 1, 4)}).",
        f"- **Epistemic uncertainty must rise far from the data.** With the paper's weight draws and tanh it falls instead, to {100 * min(outside):.0f} to {100 * max(outside):.0f} % of its value at the data ([the 1-D curve](docs/results/curve.md)). Use `fidgp fit-posterior`, as the demo does; for images also `fidgp ood`.",
        f"- **You must detect inputs close to the training data.** CIFAR-100 against CIFAR-10: AUROC {near('fidgp-all-own-s*', 'chosen'):.1f} % with our score, {near('deterministic-s*', 'energy'):.1f} % with energy on a plain network. Averaged with SVHN: {chosen:.1f} against {best('deterministic-s*'):.1f} % ({', '.join(sorted({f'`{best_other(run)}`' for run in ood('deterministic-s*')}))}).",
        f"- **Your data are a small table.** Among the methods here FiD-GP has the lowest NLL on {first} of {of} [UCI tables](docs/results/uci.md).",
        f"- **Prediction must be as fast as one pass.** On the H200 eight new weight draws take {new:.0f} times as long as our deterministic prediction, eight stored draws {kept:.0f} times.",
    ]
