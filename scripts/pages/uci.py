"""UCI regression: every method on every table, and how its settings were chosen; scripts/readme prints it."""
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
    return f"{label}: better on {say('below')}; within one standard error on {say('level')}; worse on {say('above')}."


def levels_said():
    """Methods beside what was published of them."""
    dropout = lambda name, run: published_of(run).get("reg/NLL")
    ensemble = lambda name, run: ENSEMBLES[name][0]
    lines = [level("our MC dropout against the published one", "mc-dropout", dropout), level("our 5 networks against the published ones", "ensemble", ensemble), level("FiD-GP against published MC dropout", "fidgp", dropout)]
    return "NLL, " + " ".join(lines)


def chosen_table():
    """What validation chose, by table and method."""
    found = {name: {method: next(iter(read(f"uci/choice/{name}-{method}.json")), None) for method, _ in UCI_METHODS} for name in uci_runs()}
    methods = [(method, label) for method, label in UCI_METHODS if any(of[method] for of in found.values())]
    cell = lambda record: f"{record['chosen']} ({len(record['candidates'])})" if record else "–"
    rows = ["| chosen by validation NLL (of how many) | " + " | ".join(label for _, label in methods) + " |", "|---" * (len(methods) + 1) + "|"]
    return rows + [f"| {name} | " + " | ".join(cell(of[method]) for method, _ in methods) + " |" for name, of in found.items()]


def lowest():
    """Which method has the lowest NLL on each set, among all that were run."""
    places = {}
    for name, runs in uci_runs().items():
        found = {label: runs[method]["metrics"]["reg/NLL"] for method, label in UCI_METHODS if runs[method]}
        places.setdefault(min(found, key=found.get), []).append(name)
    return "Lowest NLL: " + "; ".join(f"{label} on {', '.join(sets)}" for label, sets in sorted(places.items(), key=lambda place: -len(place[1]))) + "."


def z_rates():
    """What a slower rate of Z does, on validation."""
    of = lambda name, rate: read(f"uci/choice/{name}-z-rate-{rate}.json")[0]["metrics"]
    cell = lambda name, metric: f"{of(name, '1.0')[f'validation/reg/{metric}']:.3f} → {of(name, '0.1')[f'validation/reg/{metric}']:.3f}"
    sets = "; ".join(f"{name} NLL {cell(name, 'NLL')}, RMSE {cell(name, 'RMSE')}" for name in ("yacht", "energy"))
    return f"Where FiD-GP and FFG-U are chosen so, their inducing locations Z learn at a tenth of the rate: where Z is square, as in these small layers, a small move of it turns all of W. On validation parts of five splits, at one setting ({sets})."


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
    text = "What `fidgp compare` reports (`results/compare/uci-yacht.json`): ± is the deviation over seeds, time is that of the deterministic network = 1, on one core that did nothing else; all have the noise and the epochs of the config, whose inducing settings validation chose for FiD-GP, and a weight decay of 0.01 on plain weights, while the others have their defaults beside it; intervals are Student's t over pairs, those over splits widened for the rows that these share (Nadeau & Bengio 2003). The NLL of the deterministic network varies by two from seed to seed, hence the wide intervals; a difference counts where both leave out zero. The page has the same as figures; one of them:"
    return [*rows, "", text, "", "![Parameters against NLL of eleven methods, whiskers over seeds, a line through those that no other beats in both](compare-pareto.svg)"]


def same_heads():
    """Where DUE is its SVGP head: its bound does not bind."""
    nlls = lambda run: [one["metrics"]["reg/NLL"] for one in run["splits"]["runs"]]
    same = [name for name, runs in uci_runs().items() if runs["svgp"] and runs["due"] and nlls(runs["svgp"]) == nlls(runs["due"])]
    return f" On {', '.join(same)} DUE's numbers are the SVGP head's to the last digit: its spectral bound of 3 is never reached by so small a network." if same else ""


def far_from_published():
    """Tables on which our MC dropout's RMSE is far above the published one, although its NLL is not."""
    far = []
    for name, runs in uci_runs().items():
        theirs = published_of(runs["fidgp"]).get("reg/RMSE")
        ours = runs["mc-dropout"]
        if theirs and ours and ours["metrics"]["reg/RMSE"] > 1.5 * theirs:
            plain = runs["deterministic"]["metrics"]["reg/RMSE"]
            far.append(f"{name} ({ours['metrics']['reg/RMSE']:.2f}, published {theirs}, our deterministic network {plain:.2f})")
    return f" RMSE of our MC dropout is far above the published on {', '.join(far)}; validation NLL chose predicted noise there." if far else ""


def uci_said():
    """How settings were chosen, and where they were not."""
    return f"`scripts/uci` compares a few settings of each method by NLL on validation parts of the first training splits, as the last table says, and trains with the best: whether the noise is learnt as one level or predicted for each input, and a knob or two of some methods. A dash there: settings that are taken over (weight decay from the deterministic network, DUE's from the SVGP head, FFG-U's from FiD-GP). FiD-GP chose among 19, mean field's prior N(0, 1) being one of its three, the others among 2 to 8: more choices find lower validation NLL, so its rows had the better chance. F-SGVB-LRT has the noise and the largest deviation that were chosen for mean field. Where the noise is predicted the likelihood forgives errors it expects, and RMSE is the worse for it.{far_from_published()}{same_heads()} On yacht BatchEnsemble, several networks and dropout beat FiD-GP clearly once they predict the noise as it does. ¹ Gal & Ghahramani's protocol on the same splits. ² Lakshminarayanan et al. 2017, table 1, on splits of their own kind, 40 epochs."
