"""UCI regression: every method on every table, and how its settings were chosen; scripts/readme prints it."""
import statistics

from pages.records import read

SETS = ["boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht"]


def uci_cell(run, metric):
    if run is None:
        return "–"
    value, error = run["metrics"][metric], run["splits"]["standard_error"][metric]
    digits = 3 if abs(value) >= 0.01 else 5  # targets of naval differ by hundredths
    return f"{value:.{digits}f} ± {error:.{digits}f}"


UCI_METHODS = [("fidgp", "FiD-GP"), ("ffgu", "FFG-U"), ("mean-field", "mean field"), ("f-sgvb-lrt", "F-SGVB-LRT"), ("mc-dropout", "MC dropout"), ("batch-ensemble", "BatchEnsemble"), ("ensemble", "5 networks"), ("svgp", "SVGP head"), ("due", "DUE"), ("laplace", "Laplace"), ("deterministic", "deterministic")]


# Lakshminarayanan et al. 2017, table 1: 5 networks, 40 epochs, the noise predicted; NLL and RMSE
ENSEMBLES = {"boston": (2.41, 3.28), "concrete": (3.06, 6.03), "energy": (1.38, 2.09), "kin8nm": (-1.20, 0.09), "naval": (-5.63, 0.00), "power": (2.79, 4.11), "protein": (2.83, 4.71), "wine": (0.94, 0.64), "yacht": (1.18, 1.58)}


def uci_runs():
    """Every table that FiD-GP was run on, with the runs of all methods."""
    runs = {name: {method: next(iter(read(f"uci/{name}-{method}.json")), None) for method, _ in UCI_METHODS} for name in SETS}
    return {name: of for name, of in runs.items() if of["fidgp"]}


def published_of(run):
    """What was published on the table of a run under its protocol."""
    return next(iter(run.get("published", [])), {"metrics": {}})["metrics"]


def uci(metric):
    """One metric of every method, published levels beside."""
    rows = [f"| UCI, {metric.removeprefix('reg/')}, mean ± s.e. over the standard splits | " + " | ".join(label for _, label in UCI_METHODS) + " | MC dropout, published¹ | 5 networks, published² |", "|---" * (len(UCI_METHODS) + 3) + "|"]
    for name, runs in uci_runs().items():
        splits = len(runs["fidgp"]["splits"]["runs"])
        published = published_of(runs["fidgp"])
        label = name if splits == 20 else f"{name} ({splits} splits)"
        rows.append(f"| {label} | " + " | ".join(uci_cell(runs[method], metric) for method, _ in UCI_METHODS) + f" | {published.get(metric, '–')} | {ENSEMBLES[name][metric == 'reg/RMSE']} |")
    return rows


def level(label, method, published):
    """How a method's NLL stands to a published one: below it, within one standard error of it, or above."""
    places = {"below": [], "level": [], "above": []}
    for name, runs in uci_runs().items():
        run, theirs = runs[method], published(name, runs["fidgp"])
        if run and theirs is not None:
            gap, error = run["metrics"]["reg/NLL"] - theirs, run["splits"]["standard_error"]["reg/NLL"]
            places["level" if abs(gap) <= error else "below" if gap < 0 else "above"].append(name)
    say = lambda key: ", ".join(places[key]) or "none"
    return f"{label}: better on {say('below')}; equal within one standard error on {say('level')}; worse on {say('above')}."


def levels_said():
    """Methods beside what was published of them."""
    dropout = lambda name, run: published_of(run).get("reg/NLL")
    ensemble = lambda name, run: ENSEMBLES[name][0]
    lines = [level("our MC dropout against the published one", "mc-dropout", dropout), level("our 5 networks against the published ones", "ensemble", ensemble), level("FiD-GP against published MC dropout", "fidgp", dropout)]
    return "**Against published NLL.** " + " ".join(line[0].upper() + line[1:] for line in lines)


def chosen_table():
    """What validation chose, by table and method."""
    found = {name: {method: next(iter(read(f"uci/choice/{name}-{method}.json")), None) for method, _ in UCI_METHODS} for name in uci_runs()}
    methods = [(method, label) for method, label in UCI_METHODS if any(of[method] for of in found.values())]
    cell = lambda record: f"{record['chosen']} ({len(record['candidates'])})" if record else "–"
    rows = ["| setting chosen by validation NLL (number of candidates) | " + " | ".join(label for _, label in methods) + " |", "|---" * (len(methods) + 1) + "|"]
    return rows + [f"| {name} | " + " | ".join(cell(of[method]) for method, _ in methods) + " |" for name, of in found.items()]


def lowest_by_method():
    """The tables on which each method has the lowest NLL, among all that were run."""
    places = {}
    for name, runs in uci_runs().items():
        found = {label: runs[method]["metrics"]["reg/NLL"] for method, label in UCI_METHODS if runs[method]}
        places.setdefault(min(found, key=found.get), []).append(name)
    return places


def lowest():
    """Which method has the lowest NLL on each table."""
    return "**Lowest NLL:** " + "; ".join(f"{label} on {', '.join(sets)}" for label, sets in sorted(lowest_by_method().items(), key=lambda place: -len(place[1]))) + "."


def lowest_places(label):
    """On how many tables a method is the lowest, and of how many."""
    places = lowest_by_method()
    return len(places.get(label, [])), sum(map(len, places.values()))


def z_rates():
    """What a slower rate of Z does, on validation."""
    of = lambda name, rate: read(f"uci/choice/{name}-z-rate-{rate}.json")[0]["metrics"]
    cell = lambda name, metric: f"{of(name, '1.0')[f'validation/reg/{metric}']:.3f} → {of(name, '0.1')[f'validation/reg/{metric}']:.3f}"
    sets = "; ".join(f"{name} NLL {cell(name, 'NLL')}, RMSE {cell(name, 'RMSE')}" for name in ("yacht", "energy"))
    return f"FiD-GP and FFG-U may let their inducing locations Z learn at a tenth of the learning rate. In these small layers Z is square, and a small change of it changes all of W. Effect on the validation parts of five splits, for one setting: {sets}."


def compared():
    """What `fidgp compare` says of all methods on one table, as an example of its report."""
    document = next(iter(read("compare/uci-yacht.json")), None)
    if document is None:
        return []
    label = lambda name: dict(UCI_METHODS)[name.removeprefix("uci-yacht-")]
    cell = lambda of: f"{of['mean']:.3f} ± {of['sd']:.3f}"
    found = {(one["name"], one["units"]): one for one in document["differences"] if one["metric"] == "reg/NLL"}
    said = lambda one: f"{one['mean']:+.3f} [{one['interval']['lo']:+.3f}, {one['interval']['hi']:+.3f}]" if one else "–"
    rows = ["| UCI yacht, five splits, three seeds, noise predicted | parameters | training time | NLL | RMSE | NLL less deterministic's: 95 % over splits | over seeds |", "|---|---|---|---|---|---|---|"]
    for one in document["contenders"]:
        cells = [f"{one['parameters']:,}", f"{one['relative_training']:.1f}", cell(one["metrics"]["reg/NLL"]), cell(one["metrics"]["reg/RMSE"]), *(said(found.get((one["name"], units))) for units in ("splits", "seeds"))]
        rows.append(f"| {label(one['name'])} | " + " | ".join(cells) + " |")
    text = "This is a report of `fidgp compare` (`results/compare/uci-yacht.json`). ± is the standard deviation over seeds. Training time is relative to the deterministic network, on one idle core. All methods have the noise model and epochs of the config and a weight decay of 0.01 on plain weights. Its inducing settings were chosen for FiD-GP on validation data; the other methods have their defaults. Intervals are Student's t over pairs; those over splits are widened because splits share rows (Nadeau & Bengio 2003). The deterministic network's NLL varies by two between seeds, so intervals are wide. Trust a difference if both intervals exclude zero. One figure of the report:"
    return [*rows, "", text, "", "![Parameters against NLL of eleven methods, whiskers over seeds, a line through those that no other beats in both](compare-pareto.svg)"]


def same_heads():
    """Where DUE is its SVGP head: its bound does not bind."""
    nlls = lambda run: [one["metrics"]["reg/NLL"] for one in run["splits"]["runs"]]
    same = [name for name, runs in uci_runs().items() if runs["svgp"] and runs["due"] and nlls(runs["svgp"]) == nlls(runs["due"])]
    return f" On {', '.join(same)} DUE and the SVGP head have identical numbers: so small a network never reaches the spectral bound of 3." if same else ""


def far_from_published():
    """Tables on which our MC dropout's RMSE is far above the published one, although its NLL is not."""
    far = []
    for name, runs in uci_runs().items():
        theirs = published_of(runs["fidgp"]).get("reg/RMSE")
        ours = runs["mc-dropout"]
        if theirs and ours and ours["metrics"]["reg/RMSE"] > 1.5 * theirs:
            plain = runs["deterministic"]["metrics"]["reg/RMSE"]
            far.append(f"{name} ({ours['metrics']['reg/RMSE']:.2f}, published {theirs}, our deterministic network {plain:.2f})")
    return f" RMSE of our MC dropout is far above the published one on {', '.join(far)}; there validation NLL chose predicted noise." if far else ""


def uci_said():
    """How settings were chosen, and where they were not."""
    return f"**How settings were chosen.** `scripts/uci` compares a few settings of each method by validation NLL on the first training splits and trains with the best (table below): one learnt noise level or noise predicted for each input, and one or two more settings for some methods. A dash means that settings were taken from another method (weight decay from the deterministic network, DUE's from the SVGP head, FFG-U's from FiD-GP). FiD-GP chose among 19 settings, the others among 2 to 8. That favours FiD-GP. F-SGVB-LRT has the noise and the largest standard deviation chosen for mean field. Where the noise is predicted, RMSE is worse, because the likelihood forgives errors that it expects.{far_from_published()}{same_heads()} On yacht BatchEnsemble, ensembles and MC dropout are clearly better than FiD-GP when they predict the noise too. ¹ Gal & Ghahramani's protocol on the same splits. ² Lakshminarayanan et al. 2017, table 1, on their own splits, 40 epochs."


GAP_METHODS = [("fidgp-linearised", "FiD-GP, linearised"), *UCI_METHODS]


def gap_runs():
    """Table by table, method by method: the record on splits with a gap, where there is one."""
    one = lambda name: next(iter(read(f"uci/{name}.json")), None)
    return {name: {method: (one(f"gap/{name}-{method}"), one(f"{name}-{method}")) for method, _ in GAP_METHODS} for name in SETS}


def gaps():
    """NLL, CRPS and coverage where the test rows lie between the training rows, beside the standard splits."""
    found = {name: {method: pair for method, pair in runs.items() if pair[0]} for name, runs in gap_runs().items()}
    rows = ["| splits with a gap (Foong et al. 2019) | NLL, gap | NLL, standard | CRPS, gap | CRPS, standard | coverage of 95 %, gap | standard |", "|---|---|---|---|---|---|---|"]
    for name, runs in found.items():
        for method, label in GAP_METHODS:
            if method in runs:
                pair = runs[method]
                cells = [uci_cell(run, metric) for metric in ("reg/NLL", "reg/CRPS") for run in pair]
                cells += ["–" if run is None else f"{run['metrics']['reg/Coverage']:.3f}" for run in pair]
                rows.append(f"| {name}: {label} | " + " | ".join(cells) + " |")
    whole = [name for name, runs in found.items() if runs]
    absent = [name for name in SETS if name not in whole]
    partly = [f"{name}: {', '.join(label for method, label in GAP_METHODS if method not in found[name])}" for name in whole if len(found[name]) < len(GAP_METHODS)]
    said = "Test rows are the middle third by a feature, training rows the outer thirds; one split for each feature; mean ± standard error over them. Settings are those of the standard splits; nothing was chosen again."
    if absent or partly:
        said += f" Not run: {'; '.join([*partly, *([', '.join(absent)] if absent else [])])}."
    return [*([*rows, ""] if whole else []), said, *gap_ranks(found)]


def gap_ranks(found):
    """Mean rank of each method's NLL over the tables with a gap that every method was run on; none without such tables."""
    complete = {name: {method: pair[0]["metrics"]["reg/NLL"] for method, pair in runs.items()} for name, runs in found.items() if len(runs) == len(GAP_METHODS)}
    if not complete:
        return []
    # methods of equal NLL share their mean place
    place = lambda nll, own: sum(other < own for other in nll.values()) + (sum(other == own for other in nll.values()) + 1) / 2
    ranks = {label: statistics.mean(place(nll, nll[method]) for nll in complete.values()) for method, label in GAP_METHODS}
    ordered = sorted(ranks.items(), key=lambda one: one[1])
    first = min(ranks["FiD-GP, linearised"], ranks["FiD-GP"]) <= ordered[0][1]
    goal = "reached on these tables" if first else "**missed**"
    tables = f"{len(complete)} of {len(SETS)} tables" if len(complete) > 1 else "one table of nine, too few to rank methods"
    return ["", f"**Mean rank of NLL with a gap** ({', '.join(complete)}: {tables}; {len(ranks)} methods, 1 is best): {', '.join(f'{label} {rank:.1f}' for label, rank in ordered)}. The goal was that FiD-GP is first: {goal}."]


BEATEN_GOAL = 5  # tables on which no rival is better by more than one standard error


def better_rivals(runs, own):
    """Rivals whose NLL is lower by more than one standard error of the difference over the splits that both have."""
    nlls = lambda run: {one["split"]: one["metrics"]["reg/NLL"] for one in run["splits"]["runs"]}
    mine, found = nlls(own), []
    for method, label in UCI_METHODS:
        if method in ("fidgp", "ffgu") or runs[method] is None:
            continue
        theirs = nlls(runs[method])
        gaps = [mine[split] - theirs[split] for split in mine.keys() & theirs.keys()]
        if len(gaps) > 1 and statistics.mean(gaps) > statistics.stdev(gaps) / len(gaps) ** 0.5:
            found.append(label)
    return found


def unbeaten_said():
    """On how many tables no rival is better by more than one standard error, with each posterior that was run."""
    linearised = lambda name: next(iter(read(f"uci/{name}-fidgp-linearised.json")), None)
    lines = []
    for label, of in (("weight draws", lambda name, runs: runs["fidgp"]), ("the linearised posterior", lambda name, runs: linearised(name))):
        all_runs = {name: (runs, of(name, runs)) for name, runs in uci_runs().items()}
        beaten = {name: better_rivals(runs, own) for name, (runs, own) in all_runs.items() if own}
        if beaten:
            free = [name for name, rivals in beaten.items() if not rivals]
            lines.append(f"with {label} {len(free)} of {len(beaten)} tables ({', '.join(free) or 'none'})")
            met = len(free) >= BEATEN_GOAL
            if len(beaten) == len(SETS):
                lines[-1] += f", {'reached' if met else '**missed**'}"
    return f"**Goal: on at least {BEATEN_GOAL} tables no other method has a lower NLL** by more than one standard error of the paired difference over splits (FFG-U, which shares FiD-GP's inducing weights, is not counted): {'; '.join(lines)}."


METHODS_BESIDE = ["fidgp init", "LightGBM", "XGBoost"]
MADE_OF = {"wine-6": "wine, grade 6 or more", "concrete-40": "concrete, 40 MPa or more"}


def beside(name, table):
    """A row for each metric: mean ± standard error over the splits, the best in bold."""
    metrics = list(table["methods"][METHODS_BESIDE[0]])
    for metric in metrics:
        values = [table["methods"][method][metric] for method in METHODS_BESIDE]
        means = [sum(one) / len(one) for one in values]
        errors = [(sum((value - mean) ** 2 for value in one) / (len(one) - 1) / len(one)) ** 0.5 for one, mean in zip(values, means)]
        best = (max if metric in ("AUROC", "accuracy") else min)(means)
        cells = [f"**{mean:.3f}** ± {error:.3f}" if mean == best else f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors)]
        yield f"| {MADE_OF.get(name, name)} | {table['rows'][0]} | {metric} | " + " | ".join(cells) + " |", metric, METHODS_BESIDE[means.index(best)]


def trees():
    """Gradient boosting with its default settings beside the config that `fidgp init` writes."""
    found = read("uci/trees/trees.json")
    if not found:
        return []
    found = found[0]
    lines = [(row, metric, best) for name, table in found["tables"].items() for row, metric, best in beside(name, table)]
    wins = sum(best == METHODS_BESIDE[0] for _, _, best in lines)
    said = (f"**Gradient boosting.** `scripts/uci-trees`: LightGBM {found['lightgbm']} and XGBoost {found['xgboost']} with their default settings beside the config that `fidgp init` writes, on the first "
            f"{found['splits']} standard splits, all on the rows of the training part (of these fidgp keeps 2 % to itself as a test part). Nothing is tuned. Mean ± standard error; best in bold. fidgp is best in {wins} of {len(lines)} rows and loses "
            f"{len(lines) - wins}. Boosting gives no standard deviation: its NLL of numbers uses its RMSE on a fifth of the training rows as one deviation for all inputs.")
    absent = [name for name in ("yacht", "boston", "energy", "concrete", "wine", "wine-6", "concrete-40") if name not in found["tables"]]
    said += f" Not run: {', '.join(absent)}, and the larger tables." if absent else " Not run: the larger tables."
    head = ["| table | training rows | metric | " + " | ".join(METHODS_BESIDE) + " |", "|---" * 6 + "|"]
    return [said, "", *head, *(row for row, _, _ in lines)]
