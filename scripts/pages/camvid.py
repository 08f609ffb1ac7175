"""CamVid: results, and scores of altered pictures; scripts/readme prints them."""
from pages.records import read

CAMVID = [
    ("deterministic", "deterministic, from scratch, 100 epochs: start of all others", "–"),
    ("deterministic-longer", "deterministic, 20 more epochs", "62.2 / 0.57 / 8.6"),
    ("batch-ensemble", "BatchEnsemble, 4 members, 20 epochs", "63.1 / 0.36 / 5.2"),
    ("ffgu", "FFG-U on all layers, 20 epochs", "60.1 / 0.37 / 8.3"),
    ("fidgp-four-reparam", "FiD-GP on four layers, Reparam, 20 epochs", "62.4 / 0.40 / 7.5"),
    ("fidgp-four", "FiD-GP on four layers, Matheron, 20 epochs", "62.8 / 0.31 / 7.4"),
    ("fidgp-four-wide", "… λ ≤ 0.1, U from 0.05", "–"),
    ("fidgp-four-wider", "… λ ≤ 0.3, U from 0.1", "–"),
    ("fidgp-all", "FiD-GP on all layers, Matheron, 20 epochs", "62.6 / 0.48 / 7.1"),
]
CAMVID_METRICS = [("seg/mIoU", 100, 1), ("seg/NLL", 1, 3), ("cal/ECE", 100, 2), ("seg/BoundaryRatio", 1, 1)]


def camvid_of(name):
    return read(f"camvid/{name}.json")[0]["metrics"]


def camvid(every=False):
    """One row for each network; with those that were tried and those from another start, or without."""
    rows = ["| CamVid 480×360, FCN-ResNet50, test | parameters | mIoU % | pixel NLL | pixel ECE % | uncertainty at boundaries / inside | " + ("from another start: mIoU / NLL / ECE | " if every else "") + "the paper's |", "|---" * (8 if every else 7) + "|"]
    cells = lambda run, shown: [f"{run['metrics'][metric] * factor:.{digits}f}" for metric, factor, digits in shown]
    for name, label, paper in (row for row in CAMVID if every or not row[1].startswith("…")):
        run = read(f"camvid/{name}.json")[0]
        other = " / ".join(cell for run in read(f"camvid/earlier-start/{name}.json") for cell in cells(run, CAMVID_METRICS[:3])) or "–"
        rows.append(f"| {label} | {run['cost']['parameters']:,} | " + " | ".join(cells(run, CAMVID_METRICS)) + (f" | {other}" if every else "") + f" | {paper} |")
    return rows


def camvid_aim(name, place=""):
    """A network beside 20 more epochs of the deterministic one, from the same start."""
    plain, ours = camvid_of(f"{place}deterministic-longer"), camvid_of(f"{place}{name}")
    gap, nll, ece = (ours[metric] - plain[metric] for metric in ("seg/mIoU", "seg/NLL", "cal/ECE"))
    aim = "reached" if gap >= -0.005 and nll < 0 and ece < 0 else "missed"
    return f"{gap * 100:+.1f} mIoU, {nll:+.3f} NLL, {ece * 100:+.2f} ECE, {aim}"


def camvid_said():
    """What holds for all rows, and how far the aim is reached."""
    return f"One seed; 367 training pictures; the epoch with the best validation NLL; K = 8; 15 ECE bins; void pixels ignored. The paper starts from weights pretrained on COCO, we start from scratch: compare rows with each other, not with the last column.\n\nThe goal was better NLL and ECE than 20 more deterministic epochs, with at most 0.5 mIoU less. Difference from these epochs, and whether the goal was reached: FiD-GP on all layers {camvid_aim('fidgp-all')} (from another start {camvid_aim('fidgp-all', 'earlier-start/')}); on the paper's four layers {camvid_aim('fidgp-four')} (from another start {camvid_aim('fidgp-four', 'earlier-start/')}). The two starts differ more than the methods do."


def camvid_more():
    """What was tried, and how far draws differ."""
    widths = {"fidgp-four": "λ ≤ 0.03", "fidgp-four-wide": "λ ≤ 0.1", "fidgp-four-wider": "λ ≤ 0.3"}
    wanted = widths[min(widths, key=lambda name: camvid_of(name)["validation/seg/NLL"])]
    apart = lambda name: f"{camvid_of(name)['test/ens_MI']:.0e}"
    return f"Of the three settings of λ on four layers, {wanted} has the best validation NLL. On four layers the draws hardly differ: mutual information is {apart('fidgp-four')} nats, {apart('fidgp-four-wider')} with λ ≤ 0.3, and {apart('fidgp-all')} on all layers. Every pixel counts as an observation, so the likelihood outweighs the KL and the posterior becomes narrow."


def camvid_ood():
    """Image-level scores of altered test pictures."""
    rows = []
    for name, label in (("deterministic-longer", "deterministic"), ("fidgp-four", "FiD-GP on four layers")):
        for run in read(f"ood/camvid-{name}.json"):
            sets = [one["name"] for one in run["sets"]]
            score = {one["name"]: one["sets"] for one in run["scores"]}
            rows += [f"| {label}, CamVid's test pictures against altered versions of them, AUROC %, {run['sets'][0]['images']} pictures a set | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
            rows += [f"| {one} | " + " | ".join(f"{100 * score[one][set_]['AUROC']:.1f}" for set_ in sets) + " |" for one in ("leverage+near", "subspace+energy", "variance", "knn", "msp", "energy", "entropy") if one in score]
            trivial = [one["name"] for one in run["sets"] if one.get("trivial")]
            rows += ["", "All controls passed. The mean or standard deviation of the pixels alone separates these sets, so they do not test the network: " + (", ".join(trivial) or "none") + ".", ""]
    return rows
