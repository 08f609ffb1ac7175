"""FiD-GP beside the methods it is compared with on CIFAR-100: results, published levels, costs; scripts/readme prints them."""
import statistics

from pages.records import read, spread

PAPER_CIFAR = {"deterministic": "75.61 / 0.93 / 4.31", "batch-ensemble": "76.01 / 0.99 / 3.26", "ffgu": "74.81 / 0.99 / 4.31", "f-sgvb-lrt": "70.10 / 1.12 / 3.62", "fidgp-four": "76.27 / 1.08 / 3.69", "fidgp-all": "76.11 / 0.92 / 3.60"}
METHODS = [
    ("deterministic", "deterministic"),
    ("ddu", "DDU"),
    ("laplace", "last-layer Laplace"),
    ("mc-dropout", "MC dropout"),
    ("mean-field", "mean field"),
    ("f-sgvb-lrt", "F-SGVB-LRT"),
    ("batch-ensemble", "BatchEnsemble"),
    ("ensemble", "deep ensemble"),
    ("sngp", "SNGP"),
    ("svgp", "SVGP head"),
    ("due", "DUE"),
    ("ffgu", "FFG-U on all layers, 128×128"),
    ("fidgp-four", "FiD-GP on four layers, Matheron"),
    ("fidgp-all", "FiD-GP on all layers, 128×128, Matheron"),
]
METRICS = [("cls/Acc", 100, 2), ("cls/NLL", 1, 3), ("cal/ECE", 100, 2)]
REFERENCE = "reference-100-epochs"
BASELINES = "uncertainty-baselines, baselines/cifar/README.md"
NOTES = "dal-toolbox, experiments/experiment_notes/experiments.md"
RITTER = "Ritter et al. 2021, submission to ICLR, table 2"
# accuracy, NLL and ECE of the method, and of the deterministic network in the same source
PUBLISHED = [
    ("ddu", "WRN-28-10, CIFAR-10", (95.97, None, 0.85), (95.98, None, 0.85), "README of the authors' code"),
    ("laplace", "WRN-16-4, CIFAR-10", (94.8, 0.157, 0.8), (94.8, 0.172, 2.0), "laplace-torch, examples/calibration_example.md"),
    ("mc-dropout", "WRN-28-10", (80.7, 0.785, 4.87), (79.8, 0.875, 8.57), BASELINES),
    ("mc-dropout", "ResNet-18, CIFAR-10", (94.42, 0.171, 0.6), (95.30, 0.193, 2.9), NOTES),
    ("mean-field", "WRN-28-10", (77.8, 0.944, 9.7), (79.8, 0.875, 8.57), BASELINES),
    ("mean-field", "ResNet-18", (73.44, None, 5.49), (72.68, None, 19.41), RITTER),
    ("batch-ensemble", "WRN-28-10, 4 members", (81.9, 0.690, 2.65), (79.8, 0.875, 8.57), BASELINES),
    ("ensemble", "WRN-28-10, 4 members", (82.7, 0.666, 2.1), (79.8, 0.875, 8.57), BASELINES),
    ("sngp", "WRN-28-10", (80.2, 0.805, 2.0), (79.8, 0.875, 8.57), BASELINES),
    ("sngp", "ResNet-18, CIFAR-10", (95.09, 0.161, 0.6), (95.30, 0.193, 2.9), NOTES),
    ("ffgu", "ResNet-18", (75.69, None, 5.20), (72.68, None, 19.41), RITTER),
]


def cifar_cells(pattern):
    """Accuracy, NLL and ECE."""
    runs = read(f"cifar100/{pattern}.json")
    return [spread(runs, *metric) for metric in METRICS]


def confidence(pattern):
    """Mean confidence over the runs, in per cent."""
    bins = [one for run in read(f"cifar100/{pattern}.json") for one in run["figures"][0]["reliability"]["bins"]]
    return f"{100 * sum(one['confidence_sum'] for one in bins) / sum(one['count'] for one in bins):.1f}"


def mean(pattern, metric, factor=1):
    return statistics.mean(run["metrics"][metric] for run in read(f"cifar100/{pattern}.json")) * factor


def passes(run):
    """Weight draws or members that make one prediction."""
    config = run["config"]
    if config["method"] in ("deterministic", "sngp", "ddu"):
        return 1
    return config["baseline"]["members"] if config["method"] in ("ensemble", "batch-ensemble") else config["predict"]["draws"]


def rivals():
    """Every method from scratch: the paper's recipe, half as long, and a short one."""
    rows = [
        "| CIFAR-100, ResNet-18 from scratch | parameters | passes of a prediction | the paper's recipe, 100 epochs: accuracy % | NLL | ECE % | mean confidence % | 24 epochs: accuracy / NLL / ECE | seeds | published by the paper | how our training differs |",
        "|---" * 11 + "|",
    ]
    for name, label in METHODS:
        reference, short = read(f"cifar100/{REFERENCE}-{name}.json"), read(f"cifar100/short-{name}-s*.json")
        cells = [f"{(reference or short)[0]['cost']['parameters']:,}", passes((reference or short)[0]), *(cifar_cells(f"{REFERENCE}-{name}") + [confidence(f"{REFERENCE}-{name}")] if reference else ["–"] * 4)]
        cells += [" / ".join(cifar_cells(f"short-{name}-s*")) if short else "–", len(short) or "–", PAPER_CIFAR.get(name, "–"), differs(name, reference or short)]
        rows.append(f"| {label} | " + " | ".join(map(str, cells)) + " |")
    return [*rows, "", said(), "", *published(), "", levels()]


def said():
    """What holds for all rows."""
    return "All rows: 45,000 training images, label smoothing 0.05, the epoch with the best validation NLL among those with the full KL, 15 ECE bins, running BatchNorm statistics.\n\n- The paper's recipe: one seed; Adam with batch 512 and learning rate 0.002 (the paper: batch 100, 0.001); its milestone at half; the KL from the middle on (from the start for SVGP and DUE).\n- 24 epochs: batch 512; a cosine schedule; SGD with learning rate 0.2 for plain weights, Adam with 0.002 for inducing weights.\n- BatchEnsemble has 4 members. The deep ensemble has 4 networks (all counted in its parameters), 5 in 24 epochs."


def levels():
    """How these stand to what is published, and why."""
    sure, right = confidence(f"{REFERENCE}-deterministic"), mean(f"{REFERENCE}-deterministic", "cls/Acc", 100)
    apart = lambda name: f"{mean(f'{REFERENCE}-{name}', 'test/ens_MI'):.0e}"
    validated = lambda name: f"{mean(name, 'validation/cls/Acc', 100):.2f}"
    measure = lambda metric: mean("laplace-post-hoc-s1", metric)
    measured = read("cifar100/laplace-post-hoc-s1.json")[0]["metrics"]
    total = measured.get("cls/Entropy", measured["test/ens_Entropy"])  # before there was the first, the second was the total
    fitted = f"Fitted to an earlier training of the SGD network of the first table ({' / '.join(cifar_cells('earlier/deterministic-sgd-s1'))}) it gives {' / '.join(cifar_cells('laplace-post-hoc-s1'))}: mutual information is {measure('test/ens_MI'):.2f} of {total:.2f} nats, and mean confidence falls from {confidence('earlier/deterministic-sgd-s1')} to {confidence('laplace-post-hoc-s1')} %. The source has ten classes, far fewer weights in the last layer, and the same rule for the prior precision."
    return "\n\n".join([
        f"The sources have other networks and recipes, so only gains over the deterministic network can be compared. ECE is the least comparable: label smoothing makes our deterministic network underconfident (confidence {sure} %, accuracy {right:.1f} %), and the deep ensemble, SNGP and Laplace make it more so. The published networks were overconfident. So ECE rises here where it falls in the sources. The deep ensemble gains more accuracy than published, and somewhat less NLL. We found no comparable table for DUE and SVGP heads.",
        f"**Last-layer Laplace**, with the prior precision that maximises the evidence, makes networks underconfident. {fitted}",
        f"**SNGP** depends on the lengthscale of its kernel. Validation accuracy after 24 epochs, one seed each: {validated('sngp-lengthscale-1-s42')} % with √n (about that of the reference implementation), {validated('short-sngp-s42')} % with 2√n, {validated('short-deterministic-s42')} % without SNGP. The rows have 2√n, and λ = 7.5 as the reference for CIFAR-100.",
        "**BatchEnsemble** has most of its published gain in NLL after 100 epochs, but not the gain in accuracy. It has a weight decay of 0.0003, the deterministic network here has none; we did not measure how much of the gain that explains. In 24 epochs it is worse than the deterministic network. Its authors use a K-th of the images per step, and 1.5 times as many steps.",
        f"**Mean field and F-SGVB-LRT** have the prior of the released code, N(0, 1). They were not run for 24 epochs. With this recipe the draws of all weight posteriors hardly differ. Mutual information is {apart('mean-field')} nats for mean field, {apart('f-sgvb-lrt')} for F-SGVB-LRT, {apart('ffgu')} for FFG-U, {apart('fidgp-four')} and {apart('fidgp-all')} for FiD-GP on four and on all layers. So these rows compare parametrisations rather than averages over draws.",
    ])


def differs(name, run):
    """Where a run's protocol is not the paper's."""
    if name not in PAPER_CIFAR:
        return "–"
    train = run[0]["config"]["train"]
    return f"{train['epochs']} epochs for 200, batch {train['batch_size']} for 100, bins, epoch chosen on validation"


def gains(pattern, name):
    """What a method adds to the deterministic network under the same recipe."""
    return gain([mean(pattern.format(name), metric, factor) for metric, factor, _ in METRICS], [mean(pattern.format("deterministic"), metric, factor) for metric, factor, _ in METRICS])


def gain(method, plain):
    return " / ".join("–" if ours is None else f"{round(ours - base, digits) + 0.0:+.{digits}f}" for ours, base, digits in zip(method, plain, (1, 2, 1)))


def published():
    """Gains over deterministic: networks and recipes differ too much for the levels themselves."""
    rows = ["| gain over deterministic: accuracy / NLL / ECE | the paper's recipe, 100 epochs | 24 epochs | published | network of the source | source |", "|---|---|---|---|---|---|"]
    for name, there, theirs, plain, source in PUBLISHED:
        reference = gains(REFERENCE + "-{}", name) if read(f"cifar100/{REFERENCE}-{name}.json") else "–"
        rows.append(f"| {dict(METHODS)[name]} | {reference} | {gains('short-{}-s*', name) if read(f'cifar100/short-{name}-s*.json') else '–'} | {gain(theirs, plain)} | {there} | {source} |")
    return rows


def costs():
    """What every method costs, counted and measured."""
    gpu, cpu = (read(f"bench/methods-{where}.json")[0] for where in ("cuda-batch512", "cpu-batch32"))
    rows = ["| ResNet-18 for CIFAR-100; 8 draws, 4 members of BatchEnsemble, 5 networks in the deep ensemble | parameters | MB in f32 | GMACs of predicting one image | training step, H200 | CPU | prediction, H200 | CPU | training memory, H200 |", "|---|---|---|---|---|---|---|---|---|"]
    median = lambda run, name, what: statistics.median(one[what] for one in run["samples"][name])
    ratio = lambda run, name, what: f"{median(run, name, what) / median(run, 'deterministic', what):.2f}"
    for name, label in METHODS:
        counted = cpu["samples"][name][0]["counted"]
        cells = [f"{counted['parameters']:,}", f"{counted['bytes'] / 1e6:.1f}", f"{counted['prediction_macs'] / 1e9:.2f}"]
        cells += [ratio(run, name, what) for what in ("train", "predict") for run in (gpu, cpu)] + [ratio(gpu, name, "bytes")]
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    said = f"Times and memory are measured relative to the deterministic network (`scripts/bench --methods`, batch 512 on the GPU, 32 on the CPU; {median(gpu, 'deterministic', 'train'):.1f} ms and {median(cpu, 'deterministic', 'train') / 1e3:.2f} s per step). MACs are counted for one image with new draws; a batch shares the draws. (Laplace's were recorded without its draws; with them it is 0.81.) A training step of the deep ensemble trains all members. MC dropout draws a mask for every input of every layer, which costs as much as the convolutions on the GPU."
    return [*rows, "", said]


def complexity():
    """Time and storage of one layer: the paper's formulas beside what is counted and measured."""
    run = read("bench/complexity-cpu.json")[0]
    rows = [f"| one layer, d = 512, M = 64, {run['inputs']} inputs, K = {run['passes']} | numbers stored: the paper's formula | corrected | counted | MACs: the paper's formula | ours | measured ms |", "|---|---|---|---|---|---|---|"]
    for row in run["by_width"]:
        if row["width"] == 512:
            cells = [f"{row[name]:,}" for name in ("storage_paper", "storage_mended", "storage_counted")] + [f"{row[name] / 1e6:.0f} M" for name in ("macs_paper", "macs_ours")] + [f"{row['measured_ms']:.2f}"]
            rows.append(f"| {row['method']} | " + " | ".join(cells) + " |")
    said = "`fidgp complexity` prints and plots this for growing d and M. We corrected three errors in the paper's storage column: it counts BatchEnsemble as K whole weights, leaves out the `2·M_in·M_out` parameters of q(U), and counts K draws of U as stored."
    return [*rows, "", said, "", "![Milliseconds of a prediction against the width of a layer, for each method, measured beside formula](complexity.svg)"]
