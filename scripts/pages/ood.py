"""What the scores of `fidgp ood` reach on CIFAR-100; scripts/readme prints it."""
import statistics

from pages.records import read

OOD_ROWS = ["chosen", "subspace+energy", "variance+energy", "leverage+near", "msp", "energy", "entropy", "scale", "react", "knn", "vim"]
OURS = ["chosen", "residual", "variance", "subspace", "leverage"]
OOD_RUNS = [
    ("deterministic-s*", "deterministic"),
    ("reference-20-epochs-ffgu", "FFG-U on all layers, the 20-epoch recipe"),
    ("reference-20-epochs-fidgp-four", "FiD-GP on four layers, the 20-epoch recipe"),
    ("fidgp-all-pretrained-s*", "FiD-GP on all layers, the 14-epoch networks"),
    ("fidgp-all-own-s*", "FiD-GP on all layers, the main recipe"),
]


def areas(run):
    """AUROC in per cent by score and set, and the mean of CIFAR-10 and SVHN by score."""
    table = {one["name"]: {name: 100 * cell["AUROC"] for name, cell in one["sets"].items()} for one in run["scores"]}
    return table, {name: (values["cifar10"] + values["svhn"]) / 2 for name, values in table.items()}


def best_other(run):
    mean = areas(run)[1]
    return max((name for name in mean if not any(name.startswith(own) for own in OURS) and name != "compat-residual"), key=mean.get)


def plus_minus(values):
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def ood_short():
    """The chosen score beside the best of others, one row for each kind of network."""
    images = {run["id_images"] for pattern, _ in OOD_RUNS for run in read(f"ood/{pattern}.json")}
    rows = [f"| CIFAR-100 against other sets, AUROC % of our score `chosen` (selected on notMNIST, mixtures and held-out classes) | accuracy % on {' or '.join(map(str, sorted(images)))} of its images | CIFAR-10, near | SVHN | MNIST | Fashion-MNIST | mean of CIFAR-10 and SVHN | best score of others |", "|---|---|---|---|---|---|---|---|"]
    for pattern, label in OOD_RUNS:
        runs = read(f"ood/{pattern}.json")
        if not runs:
            continue
        cells = [plus_minus([100 * run["accuracy"] for run in runs])]
        cells += [plus_minus([areas(run)[0]["chosen"][name] for run in runs]) for name in ("cifar10", "svhn", "mnist", "fashion-mnist")]
        cells.append(plus_minus([areas(run)[1]["chosen"] for run in runs]))
        others = ", ".join(sorted({best_other(run) for run in runs}))
        cells.append(f"{plus_minus([areas(run)[1][best_other(run)] for run in runs])} ({others})")
        seeds = f", {len(runs)} seeds" if len(runs) > 1 else ""
        rows.append(f"| {label}{seeds} | " + " | ".join(cells) + " |")
    return rows


def ood():
    """Areas under ROC curves, our scores first, and a sentence for each model."""
    rows = []
    for pattern, label in OOD_RUNS:
        for run in read(f"ood/{pattern}.json"):
            sets = [one["name"] for one in run["sets"]]
            score, mean = areas(run)
            rows += [f"| {label} ({run['accuracy'] * 100:.1f} %), CIFAR-100 against, AUROC % | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
            rows += [f"| {name} | " + " | ".join(f"{score[name][one]:.1f}" for one in sets) + " |" for name in OOD_ROWS if name in score]
            best = best_other(run)
            chosen = next(one["sets"] for one in run["scores"] if one["name"] == "chosen")
            half = max(cell["interval"]["hi"] - cell["interval"]["lo"] for cell in chosen.values()) * 50
            said = f"Selected on {', '.join(run['chosen']['on'])}, never on these sets: {run['chosen']['says']}. Mean of CIFAR-10 and SVHN: {mean['chosen']:.1f}, the best score of others ({best}) {mean[best]:.1f}. {run['sets'][0]['images']} images a set, 95 % intervals within ± {half:.1f}; all controls passed."
            if run["cost"]:
                said += f" Cost in forward passes: variance {run['cost']['variance'] / run['cost']['forward']:.2f}, residual {run['cost']['residual'] / run['cost']['forward']:.2f}."
            if run["paper_protocol"]:
                null = " / ".join(f"{value * 100:.0f}" for value in run["paper_protocol"]["null"])
                said += f" The released script's procedure, five times on *identical* images, gives {null} instead of 50 (`--paper-protocol`)."
            rows += ["", said, ""]
    rows.append("`results/ood` has all scores with AUPR, FPR95 and intervals. MNIST and Fashion-MNIST are marked as trivially separable (grey, 28×28).")
    return rows


def ood_said():
    """Aims, and how far they are reached by the network with inducing weights on all layers."""
    runs = read("ood/fidgp-all-own-s*.json")
    mean = lambda value: statistics.mean(value(run) for run in runs)
    near, far = (mean(lambda run: areas(run)[0]["chosen"][name]) for name in ("cifar10", "svhn"))
    ours, others = mean(lambda run: areas(run)[1]["chosen"]), mean(lambda run: areas(run)[1][best_other(run)])
    word = lambda value, aim: "reached" if value >= aim else f"missed by {aim - value:.1f}"
    fixed = mean(lambda run: areas(run)[1]["subspace+energy"])
    plain = read("ood/deterministic-s*.json")[0]
    beside = f"The selection did not find the best score: `subspace+energy`, which needs none, has {fixed:.1f} in that mean, the chosen score {ours:.1f}.\n\nThe plain network from which these networks started has {areas(plain)[1]['chosen']:.1f} with the chosen score, {areas(plain)[1]['subspace+energy']:.1f} with `subspace+energy`, and {areas(plain)[1][best_other(plain)]:.1f} with the best score of others. With `subspace+energy` most of the result comes from the score, not from the Bayesian layers. These networks are an earlier training of the main row (`results/cifar100/earlier`)."
    return f"Goals for FiD-GP on all layers: 81 for CIFAR-10 ({word(near, 81)}), 91 for SVHN ({word(far, 91)}), and in their mean more than every score of others on the same network ({word(ours, others)}). {beside} Scores use the posterior mean with running BatchNorm statistics, so the accuracies here differ from those of K draws."


# what `fidgp predict` prints for the shipped model, beside scores of one plain prediction
PRINTED = [("mutual-information", "**epistemic, as `fidgp predict` prints it** (mutual information)"), ("total-entropy", "total, as printed (entropy of the mean)"), ("linearised-variance", "variance of the logits"), ("msp", "largest probability (MSP), one pass"), ("energy", "energy, one pass")]
PRINTED_GOAL = 80


def shipped():
    """AUROC of what the shipped model prints, near and far."""
    found = read("ood/shipped-linearised.json")
    if not found:
        return ["Not run."]
    run = found[0]
    score, mean = areas(run)
    sets = [one["name"] for one in run["sets"]]
    rows = [f"| `models/cifar100-resnet18-fidgp`, linearised posterior of features: CIFAR-100 against, AUROC % | {' | '.join(sets)} | mean of CIFAR-10 and SVHN |", "|---" * (len(sets) + 2) + "|"]
    rows += [f"| {label} | " + " | ".join(f"{score[name][one]:.1f}" for one in sets) + f" | {mean[name]:.1f} |" for name, label in PRINTED if name in score]
    own, plain = mean["mutual-information"], mean["energy"]
    word = "reached" if own >= PRINTED_GOAL else f"**missed by {PRINTED_GOAL - own:.1f}**"
    beside = next(iter(read("ood/shipped-draws.json")), None)
    before = f" With weight draws, which this model had before, it was {areas(beside)[1]['mutual-information']:.1f} (`results/ood/shipped-draws.json`)." if beside else ""
    half = max(cell["interval"]["hi"] - cell["interval"]["lo"] for one in run["scores"] if one["name"] == "mutual-information" for cell in one["sets"].values()) * 50
    said = f"The goal for the printed epistemic number was {PRINTED_GOAL} in the mean of CIFAR-10 and SVHN: it is {own:.1f}, {word}; the energy of one plain pass has {plain:.1f}.{before} The variance alone finds far images better than near ones (CIFAR-10: {score['linearised-variance']['cifar10']:.1f}). {run['id_images']} images a set, 95 % intervals within ± {half:.1f}; all controls passed. The posterior was fitted to 10,000 training images. notMNIST is one of the sets on which the law was chosen; nothing was chosen on the others. Commit {run['commit'][:7]}, {run['hardware']['cpu']}."
    return [*rows, "", said]


def corrupted():
    """The shipped model on corrupted test images, severity by severity."""
    found = read("corruptions/shipped-linearised.json")
    run = found[0]
    rows = ["| included model, linearised posterior | accuracy % | NLL | ECE % | mean epistemic | mean total |", "|---|---|---|---|---|---|"]
    row = lambda name, level: f"| {name} | {100 * level['accuracy']:.1f} | {level['nll']:.3f} | {100 * level['ece']:.1f} | {level['epistemic']:.3f} | {level['total']:.3f} |"
    rows += [row("clean", run["clean"]), *(row(f"severity {place}, mean of {len(run['corruptions'])}", level) for place, level in enumerate(run["mean"], 1))]
    rows += [row(f"{one['name']}, severity 5", one["severities"][-1]) for one in run["corruptions"]]
    lower = [one["name"] for one in run["corruptions"] if one["severities"][-1]["epistemic"] <= run["clean"]["epistemic"]]
    said = "Epistemic uncertainty at severity 5 is above that of the clean images for every corruption." if not lower else f"**Negative result.** At severity 5 the epistemic uncertainty is not above that of the clean images for {', '.join(lower)}."
    over = run["mean"][-1]["ece"] - run["clean"]["ece"]
    return [*rows, "", f"{said} From the clean images to severity 5 ECE changes by {100 * over:+.1f} points. {run['images']} test images, seed {run['seed']}; [what the corruptions do](use/ood.md#corrupted-images).", "", "![Accuracy, NLL, calibration error and epistemic uncertainty of the included model against the severity of twelve corruptions](corruptions.svg)"]
