"""Serving, Python and sizes on disk, from the records of scripts/serve, scripts/python-times and scripts/export-types."""
import json

from pages.records import ROOT

TYPES = {"f16": "f16", "bf16": "bf16", "int8": "int8"}
MODELS = {"pictures": "included ResNet-18, one picture", "energy": "MLP of the README, one row", "houses": "small MLP, one row"}
RECORDS = ["serve/load.json", "serve/python.json", "export/types.json", "robustness/http.json", "serve/clients.json"]


def record(name):
    """A record that says where it was made; none where there is none yet."""
    path = ROOT / "results" / name
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if "commit" in found else None


def records():
    """Those that are there."""
    return [name for name in RECORDS if record(name)]


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)]


def ms(value):
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def loads(found):
    rows = []
    for one in found["rows"]:
        refused = sum(count for status, count in one.get("answers", {}).items() if status != "200")
        rows.append([MODELS[one["model"]], one["server"], str(one["clients"]), f"{one['answered_per_second']:.1f}", ms(one["p50_ms"]), ms(one["p99_ms"]), str(refused)])
    said = f"**Load** on loopback, {found['threads']} threads for the model, server and clients on the same {found['hardware']['cores']} cores. Each client asks for one input after another."
    if found["compared"]:
        apart = max(max(one["apart"].values()) for one in found["compared"])
        said += f" The rival is onnxruntime behind FastAPI with the ONNX file of `fidgp export`; before the times were taken, its eight draws gave the answers of `fidgp serve`, to {apart:.0e} of the largest number."
    return [said, "", *table(["model", "server", "clients", "answers per second", "p50 ms", "p99 ms", "refused (429)"], rows)]


def python(found):
    counts = sorted({one["rows"] for one in found["rows"]})
    names = list(dict.fromkeys(one["name"] for one in found["rows"]))
    time = {(one["rows"], one["name"]): one for one in found["rows"]}
    rows = [[name, *(f"{time[count, name]['median_ms']:.3g}" for count in counts)] for name in names]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    said = f"**Python**: time of one prediction on the same network (MLP of the README) and rows, one thread, median; {versions}. laplace-torch and fidgp give means and standard deviations, MAPIE intervals."
    return [said, "", *table(["", *(f"{count} row{'s' if count > 1 else ''}, ms" for count in counts)], rows)]


def sizes(found):
    plain = found["plain_bytes"]
    share = lambda count, whole: f"{100 * count / whole:.1f}"
    rows = []
    for one in found["rows"]:
        bytes_ = one["bytes"]
        rows.append([f"FiD-GP, {TYPES[one['dtype']]}", f"{bytes_ / 1e6:.2f}", share(bytes_, plain["f32"]), share(bytes_, plain["int8"]),
                     f"{100 * one['cls/Acc']:.2f}", f"{one['cls/NLL']:.4f}", f"{100 * one['cal/ECE']:.2f}", f"{one['cls/Entropy']:.4f}", f"{one['test/ens_MI']:.4f}"])
    for dtype in ("f32", "int8"):
        rows.append([f"plain network, {dtype}", f"{plain[dtype] / 1e6:.2f}", share(plain[dtype], plain["f32"]), share(plain[dtype], plain["int8"]), *["–"] * 5])
    small = [TYPES[one["dtype"]] for one in found["rows"] if one["bytes"] <= 0.25 * plain["f32"]]
    int8 = next((one["bytes"] for one in found["rows"] if one["dtype"] == "int8"), None)
    said = [f"**Sizes** of the parameters of the included model ({found['model']}), stored by `fidgp export --dtype`, and what that does to {found['examples']}."]
    claim = f"The paper claims a model 75 % smaller. Against the plain network in f32, {' and '.join(small) or 'no type'} reach{'es' if len(small) < 2 else ''} that; stored in int8 the plain network is {100 - 100 * plain['int8'] / plain['f32']:.1f} % smaller as well."
    if int8:
        claim += f" Type for type FiD-GP saves {100 - 100 * int8 / plain['int8']:.0f} % (int8 against int8)."
    return [*said, "", *table(["stored as", "MB", "% of plain f32", "% of plain int8", "accuracy %", "NLL", "ECE %", "entropy", "epistemic"], rows), "", claim + " The plain network was not measured in int8."]


def fuzz(found):
    kinds = ", ".join(f"{count:,} × {status}" for status, count in found["statuses"].items())
    return (f"**Broken requests**: {found['requests']:,} to the program, made from sound ones at random (seed {found['seed']}): {found['panics']} panics, {found['statuses'].get('500', 0)} answers with 500, still answering afterwards: "
            f"{'yes' if found['still_answers'] else 'NO'}. Resident memory after the first quarter {found['rss_mib'][len(found['rss_mib']) // 4]} MiB, at the end {found['rss_mib'][-1]} MiB "
            f"({100 * found['rss_growth_after_first_quarter']:+.1f} %). Answers: {kinds} (closed: the connection was closed without one).")


def clients(found):
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    said = f"**Clients** of others, unchanged, JSON and binary tensors: {versions}. All did as expected"
    tested = found.get("schemathesis", {})
    return said + (f"; schemathesis made {tested['generated']} requests from `/openapi.json`, {tested['passed']} passed." if "passed" in tested else ".")


def serving():
    """The parts whose records are there."""
    parts = {"serve/load.json": loads, "serve/python.json": python, "export/types.json": sizes, "robustness/http.json": lambda found: [fuzz(found)], "serve/clients.json": lambda found: [clients(found)]}
    lines = []
    for name in records():
        lines += [*parts[name](record(name)), ""]
    return lines[:-1]
