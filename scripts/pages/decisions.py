"""What `fidgp calibrate` and `fidgp monitor` guarantee, over many divisions of real predictions; scripts/readme prints it."""
import json

from pages.records import ROOT

NAMES = {"lac": "LAC", "aps": "APS", "raps": "RAPS"}
FOREIGN = {"cifar10": "CIFAR-10", "svhn": "SVHN", "noise": "CIFAR-100 with noise"}
SCORES = ["confidence", "total", "epistemic"]


def record(name="splits"):
    return json.loads((ROOT / f"results/decision/{name}.json").read_text())


def percent(share, digits=2):
    return f"{100 * share:.{digits}f}"


def p_value(p):
    return f"{p:.2f}" if p >= 0.01 else f"{p:.1e}"


def sets():
    found = record()
    rows = ["| sets | level % | mean coverage % | theory % | ± over divisions | ± by theory | KS p | mean size | as shipped: coverage % | as shipped: size |", "|---" * 10 + "|"]
    for score, levels in found["sets"].items():
        for one, shipped in zip(levels, found["shipped"][score]):
            cells = [NAMES[score], percent(one["level"], 0), *(percent(one[key]) for key in ("mean", "expected", "sd", "expected_sd")), p_value(one["p"]), f"{one['mean_size']:.2f}"]
            cells += [percent(shipped["mean"]), f"{shipped['mean_size']:.2f}"]
            rows.append("| " + " | ".join(cells) + " |")
    return rows


def by_class():
    one = record()["by_class"]
    plain, own = one["coverage_of_plain_sets"], one["coverage"]
    return (f"Class by class, at level {percent(one['level'], 0)} % and with at least {one['fewest']} examples of each class: sets for all classes together cover single classes with "
            f"{percent(plain['lowest'], 1)} … {percent(plain['highest'], 1)} % over all divisions; with `--by-class` it is {percent(own['lowest'], 1)} … {percent(own['highest'], 1)} %, with {one['mean_size']:.1f} classes in a set. "
            f"The counts of single classes follow their beta-binomial law: KS p = {p_value(one['law']['p'])} over {one['law']['counts']} counts.")


def table_laws():
    rows = ["| table | level % | mean coverage % | theory % | ± over divisions | ± by theory | KS p |", "|---" * 7 + "|"]
    for name, table in record()["tables"].items():
        for one in table["laws"].values():
            cells = [name, percent(one["level"], 0), *(percent(one[key]) for key in ("mean", "expected", "sd", "expected_sd")), p_value(one["p"])]
            rows.append("| " + " | ".join(cells) + " |")
    return rows


def checked(what, rules):
    """Rows of a table of promises."""
    rows = []
    for one in rules["rows"]:
        if one["splits"] == 0:
            rows.append(f"| {what} | {one['what']} | – | – | – | – | – | 0 |")
            continue
        cells = [what, one["what"], percent(one["promised"], 0), percent(one["mean"]), "–" if one["sd"] is None else percent(one["sd"]), percent(one["on_the_good_side"], 1), percent(one["kept"], 1), str(one["splits"])]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def promises():
    found = record()
    rows = ["| predictions | guarantee | guaranteed % | observed % | ± over splits | better than guaranteed, % of splits | not rejected, % of splits | splits |", "|---" * 8 + "|"]
    rows += checked("CIFAR-100", found["rules"])
    for name, table in found["tables"].items():
        rows += checked(name, table["rules"])
    return rows


def answered():
    found = record()
    tables = [(name, table["rules"]) for name, table in found["tables"].items()]
    said = [f"{name}: {percent(rules['answered'], 1)} % answered, {rules['silent']} of {found['splits']} divisions without a threshold" for name, rules in [("CIFAR-100", found["rules"]), *tables]]
    return "Mean share of inputs that were answered. " + "; ".join(said) + ". For tables an answer counts as wrong if its error is among the largest fifth; each table has an error rate of its own to keep."


def p_values():
    said = [f"{score} p = {p_value(one['p'])} ({percent(one['at_most_0.05'])} % at most 0.05)" for score, one in record()["p_values"].items()]
    return f"**p-values** of in-distribution examples, one from each of {next(iter(record()['p_values'].values()))['values']} divisions, against uniform (Kolmogorov–Smirnov): " + "; ".join(said) + "."


def power():
    rows = ["| out-of-distribution pictures | p ≤ 5 % by 1 − confidence, % | by total | by epistemic | accepted % | abstained from % | called out-of-distribution % |", "|---" * 7 + "|"]
    for name, label in FOREIGN.items():
        one = record()["foreign"][name]
        verdicts = [percent(share, 1) for share in one["accept, abstain, out-of-distribution"]]
        rows.append(f"| {label} ({one['inputs']}) | " + " | ".join([*(percent(one[score], 1) for score in SCORES), *verdicts]) + " |")
    return rows


def monitored():
    one = record()["monitor"]
    rows = ["| from the 16th day on | share of lines | months | change seen | median delay of all months, lines | false alarms before |", "|---" * 6 + "|"]
    for name, change in one["changes"].items():
        which, share = name.split()
        delay = "–" if change["median_lines"] is None else f"{change['median_lines']:.0f}"
        rows.append(f"| {FOREIGN[which]} | {percent(float(share), 0)} % | {change['months']} | {change['seen']} | {delay} | {change['false_alarms_before']} |")
    quiet = ", ".join(f"{name} {table['false_alarms_of_monitor']}" for name, table in record()["tables"].items())
    said = f"**Monitor**: false alarms in {one['false_alarms']} of {one['months']} quiet months of {one['lines']} labelled lines (at most 5 % are guaranteed). Tables, the rows that were held back as one log with labels: {quiet} of {record()['splits']}."
    return [said, "", *rows]


def mapie():
    found = record("mapie-digits")
    cases, different = len(found["rows"]), sum(row["different"] for row in found["rows"])
    return f"**MAPIE {found['mapie']}** on the same scores (digits; LAC, APS, RAPS with both tie rules at three levels): {different} of {cases * found['rows'][0]['sets']} sets differ (`scripts/peers-conformal/run`)."


def decisions():
    found = record()
    lac = found["sets"]["lac"][0]
    lead = (f"`scripts/decisions/run` splits predictions at random {found['splits']} times, fits the rules of `fidgp calibrate` to one part and checks them on the other. CIFAR-100: the included model on its "
            f"{found['examples']} test pictures, {lac['fitted']} for the rules and {lac['held_back']} (sets) or {found['examples'] - lac['fitted']} (rules) to count. Tables: the network was trained on one half of the rows; the other half is split in two. "
            "In theory coverage follows a beta-binomial distribution if the last class of a set is chosen at random; KS p is the Kolmogorov–Smirnov test against it. `fidgp calibrate` always keeps the last class (as shipped), "
            "so that an input has one set: the coverage is at least as high, and the sets are larger.")
    return [lead, "", *sets(), "", by_class(), "", *table_laws(), "", *promises(), "", answered(), "", p_values(), "", *power(), "", *monitored(), "", mapie()]
