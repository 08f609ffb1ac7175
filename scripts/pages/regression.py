"""The curve with a gap; scripts/readme prints it."""
import statistics

from pages.records import read

JUDGED = [
    ("fidgp, linearised", "**FiD-GP, linearised** (the demo)"),
    ("fidgp, linearised, prior by the evidence", "FiD-GP, linearised, prior by the evidence"),
    ("fidgp, linearised, Kronecker", "FiD-GP, linearised, Kronecker"),
    ("fidgp, as trained", "FiD-GP, weights drawn from q as trained"),
    ("ffgu", "FFG-U"),
    ("ensemble", "5 networks"),
    ("laplace", "last-layer Laplace"),
    ("due", "DUE"),
    ("svgp", "SVGP head"),
    ("mc-dropout", "MC dropout"),
    ("mean-field", "mean field"),
    ("f-sgvb-lrt", "F-SGVB-LRT"),
    ("batch-ensemble", "BatchEnsemble"),
    ("deterministic", "deterministic"),
]
SHARES = ["TruthInside_in_range", "TruthInside_gap", "TruthInside_outside"]


def mean_of(rows, metric):
    values = [row["metrics"][metric] for row in rows]
    return None if not values or None in values else statistics.mean(values)


def number(value, digits):
    return "–" if value is None else f"{value:.{digits}f}"


def seeds_of(rows):
    seeds = sorted(row["seed"] for row in rows)
    return f"{seeds[0]}–{seeds[-1]}" if seeds and seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1 else ", ".join(map(str, seeds))


GOAL = 1.05  # of the error of the mean, against the deterministic network's


def error_ratio(runs, method):
    """RMSE to the truth over the deterministic network's, on the seeds that both have; and those seeds."""
    of = lambda name: {row["seed"]: row["metrics"]["RMSE_truth"] for row in runs if row["method"] == name}
    own, plain = of(method), of("deterministic")
    shared = sorted(own.keys() & plain.keys())
    if not shared or None in [*own.values(), *plain.values()]:
        return None, shared
    return sum(own[seed] for seed in shared) / sum(plain[seed] for seed in shared), shared


def judged(config="demo", network="the demo's network (sine)"):
    """Every method on a config's network: where σ grows, whether the band holds the truth, and the error of the mean."""
    records = read(f"judge/{config}.json")
    if not records:
        return ["Not run."]
    runs = records[0]["runs"]
    rows = [f"| {network}, means over seeds | seeds | epistemic σ in the gap / among the points | outside / among the points | truth inside ±2 epistemic σ: points | gap | outside | RMSE to the truth | / deterministic, shared seeds |", "|---|---|---|---|---|---|---|---|---|"]
    missing = []
    for method, label in JUDGED:
        own = [row for row in runs if row["method"] == method]
        label = label if config == "demo" else label.replace(" (the demo)", "").replace("**", "")
        if not own:
            missing.append(label)
            continue
        without = method == "deterministic"
        cells = [number(None if without else mean_of(own, f"EpistemicSD_{region}_ratio"), 1) for region in ("gap", "outside")]
        cells += [number(None if without else mean_of(own, share), 2) for share in SHARES]
        rows.append(f"| {label} | {seeds_of(own)} | " + " | ".join([*cells, number(mean_of(own, "RMSE_truth"), 4), number(error_ratio(runs, method)[0], 2)]) + " |")
    absent = [f"Not run: {', '.join(missing)}."] if missing else []
    return [*rows, "", *absent]


def judged_said():
    """How the demo was judged, and the goal for the error of its mean."""
    said = "Made by `scripts/judge`; [the schema](results-schema.md#metrics) defines the columns. Network, frequency and posterior of the demo were chosen on seeds 1 to 3. All methods have the demo's network, schedule and noise and otherwise their defaults; they were not tuned for this curve. The linearised posterior is FiD-GP's alone: rivals, FFG-U among them, run without it. The demo keeps q narrow, so that training finds the mode. Weights drawn from this narrow q carry almost no uncertainty."
    records = read("judge/demo.json")
    ratio, shared = error_ratio(records[0]["runs"], "fidgp, linearised") if records else (None, [])
    if ratio is None:
        return said
    met = "met" if ratio <= GOAL else "**missed**"
    why = "" if ratio <= GOAL else " The posterior does not move the mean: all posteriors of the same network have the same error."
    return f"{said} The goal for the error of the mean was at most {GOAL} times that of the deterministic network: it is {ratio:.2f} over {len(shared)} shared seeds, {met}.{why}"


def referenced():
    """A small network beside HMC and the exact Gaussian processes."""
    records = read("judge/reference.json")
    if not records:
        return ["`scripts/judge --reference` compares the posterior of a small network with Hamiltonian Monte Carlo and with exact Gaussian processes. Not run yet."]
    runs = records[0]["runs"]
    rows = ["| 61 weights (tanh), means over seeds | epistemic σ among the points | gap / points | outside / points | truth inside ±2 epistemic σ: points | gap | outside |", "|---|---|---|---|---|---|---|"]
    for place, posterior in enumerate(runs[0]["posteriors"]):
        own = [{"metrics": {key.removeprefix("reg/"): value for key, value in run["posteriors"][place]["metrics"].items()}} for run in runs]
        cells = [number(mean_of(own, "EpistemicSD_in_range"), 4), *(number(mean_of(own, f"EpistemicSD_{region}_ratio"), 1) for region in ("gap", "outside")), *(number(mean_of(own, share), 2) for share in SHARES)]
        rows.append(f"| {posterior['name']} | " + " | ".join(cells) + " |")
    worst = max(run["chains"]["r_hat"] for run in runs)
    inside = max(run["chains"]["r_hat_in_range"] for run in runs)
    least = min(run["chains"]["effective"] for run in runs)
    dense = max(run["dense_error"] for run in runs)
    met = "" if worst < 1.05 else " Above 1.05 chains have not met: outside the points the HMC row is a lower bound of the uncertainty, not the truth."
    return [*rows, "", f"Seeds {seeds_of(runs)}, `configs/regression-small.toml`, `fidgp reference`. HMC in f64: split R-hat at most {worst:.3f} at any point of the axis ({inside:.3f} among the points), at least {least:.0f} effective draws.{met} The dense linearised posterior differs from the exact Gaussian process of its space by at most {dense:.0e} of the largest σ."]


def over_seeds(runs, metric, digits=3):
    values = [run["metrics"].get(metric) for run in runs]
    if not values or None in values:
        return "–"
    return " / ".join(f"{value:.{digits}f}" for value in values)


def regression():
    rows = ["| curve with a gap, seeds 51 / 52 / 53 | RMSE to the true curve | coverage of the 95 % interval | epistemic σ in the gap / among the points | epistemic σ outside / among the points |", "|---|---|---|---|---|"]
    names = [
        ("left-fidgp", "FiD-GP 64×64"),
        ("right-fidgp", "FiD-GP 32×32"),
        ("left-deterministic", "deterministic"),
        ("left-relu", "FiD-GP 64×64 with ReLU"),
    ]
    for key, label in names:
        runs = read(f"regression/regression-{key}-s*.json")
        cells = [over_seeds(runs, metric) for metric in ("reg/RMSE_truth", "reg/Coverage")]
        cells += [over_seeds(runs, f"reg/EpistemicSD_{region}_ratio", 2) for region in ("gap", "outside")]
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    return rows


def ratios(panel):
    """RMSE to the truth over the deterministic network's: of the means over the seeds, then seed by seed."""
    ours, plain = ([run["metrics"]["reg/RMSE_truth"] for run in read(f"regression/regression-{panel}-{method}-s*.json")] for method in ("fidgp", "deterministic"))
    each = " / ".join(f"{a / b:.2f}" for a, b in zip(ours, plain))
    return f"{sum(ours) / sum(plain):.2f} ({each})"


def regression_said():
    """The price of the draws, and why tanh is sure far away."""
    bias = f"FiD-GP's RMSE to the true curve, divided by that of the deterministic network, is {ratios('left')} for 64×64 and {ratios('right')} for 32×32: the mean over the seeds, then each seed. Settings were chosen on other seeds."
    outside = "**Negative result.** The tanh networks of the paper's figures are narrow and wrong outside the points (x < 0.3, x > 1.9) if weights are drawn from the trained posterior: the epistemic uncertainty is smaller there than at the points. tanh saturates: its features stop changing, and the spread of the weights has no effect. ReLU features keep growing, and the uncertainty grows with them."
    return [bias, "", outside]


VARIANTS = ["flow", "δ = 1", "δ = 1, conditional kept", "evidence", "evidence, conditional kept", "evidence, noise too"]


def variants():
    """What may predict after a training as `fidgp init` writes it, by validation NLL."""
    record = next(iter(read("judge/posterior.json")), {"runs": []})
    runs = [run for run in record["runs"] if run["training"] == "init"]
    if not runs:
        return ["Not run."]
    nll = lambda run, variant: run["validation"][variant]["NLL"]
    rows = ["| validation NLL, networks trained as `fidgp init` writes it | seed | weight draws (`flow`) | " + " | ".join(VARIANTS[1:]) + " |", "|---" * (len(VARIANTS) + 2) + "|"]
    for run in sorted(runs, key=lambda run: (run["table"], run["seed"])):
        rows.append(f"| {run['table']} | {run['seed']} | " + " | ".join(f"{nll(run, variant):.3f}" for variant in VARIANTS) + " |")

    def against(variant):
        gaps = [nll(run, variant) - nll(run, "flow") for run in runs]
        return statistics.mean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")

    cells = [f"{mean:+.3f} ± {error:.3f}" for mean, error in map(against, VARIANTS[1:])]
    rows.append("| mean difference from weight draws ± standard error | | 0 | " + " | ".join(cells) + " |")
    best = min(VARIANTS, key=lambda variant: against(variant)[0])
    one, evidence = against("δ = 1"), against("evidence")
    wins = sum(nll(run, "δ = 1") <= nll(run, "evidence") for run in runs)
    said = f"Lowest in the mean: {'weight draws' if best == 'flow' else best}. δ = 1, which `fidgp init` writes, has {one[0]:+.3f}, the evidence {evidence[0]:+.3f}; δ = 1 is lower on {wins} of {len(runs)} networks. No difference is larger than {'two standard errors' if all(abs(mean) <= 2 * error for mean, error in map(against, VARIANTS[1:])) else 'these errors allow'}: on rows like the training rows the variants are alike, so δ = 1 stays. The conditional part makes no difference."
    commits = ", ".join(sorted({run["commit"][:7] for run in runs}))
    return [*rows, "", f"{said} `scripts/posterior --data FOLDER --trainings init --seeds 1`; record `results/judge/posterior.json`, commit {commits}, {record['hardware']['cpu']}, one thread."]


RATIO_GOAL, INSIDE_GOAL = 10, {"TruthInside_gap": 0.9, "TruthInside_outside": 0.8}


def papers_network_said():
    """How the linearised posterior stands to the goals on the network of the paper's left panel."""
    records = read("judge/regression-left.json")
    own = [row for row in records[0]["runs"] if row["method"] == "fidgp, linearised"] if records else []
    if not own:
        return ""
    gap, outside = (mean_of(own, f"EpistemicSD_{region}_ratio") for region in ("gap", "outside"))
    word = "reached" if min(gap, outside) >= RATIO_GOAL else "**missed**"
    far = mean_of(own, "TruthInside_outside")
    ratio, shared = error_ratio(records[0]["runs"], "fidgp, linearised")
    held = "holds" if far >= INSIDE_GOAL["TruthInside_outside"] else "does not hold"
    price = "" if ratio <= GOAL else f" Its mean has {ratio:.2f} times the error of the deterministic network ({len(shared)} seeds; goal {GOAL}, **missed**): the network was trained with weight draws, and is used at the centre of their distribution."
    return f"On the paper's network the goal of ratios of {RATIO_GOAL} in the gap and outside is {word} with δ = 1 ({gap:.1f} and {outside:.1f}). The band {held} the truth outside ({far:.2f} of the points): tanh extrapolates a constant, and a prior of size 1 cannot make up for it.{price}"
