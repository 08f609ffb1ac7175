"""Exported graphs in other runtimes, and compressed networks; scripts/readme prints it."""
import json

from pages.records import ROOT


def held(name):
    path = ROOT / f"results/{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def origin(record, path):
    seed = f" Seed {record['seed']}." if "seed" in record else ""
    return f"Record: `results/{path}.json`, made by `{record['command']}` at commit {record['commit']} on {record['hardware']['cpu'].strip()}.{seed}"


def small(number):
    return "–" if number is None else f"{number:.1e}"


def roundtrip():
    """What onnxruntime and PyTorch give for exported files."""
    record = held("onnx/roundtrip")
    if record is None:
        return []
    rows = ["| model | draws | examples | draws: onnxruntime against `fidgp predict` | mean: onnxruntime against PyTorch | M = d: against the source | size | passes of the plain graph |", "|---" * 8 + "|"]
    for row in record["rows"]:
        passes = f"{row['passes']:.1f}" if "passes" in row else "–"
        cells = [row["model"], str(row["draws"]), str(row["examples"]), small(row["predict"]), small(row.get("torch_mean")), small(row.get("source")), f"{row['bytes_draws'] / 1e6:.1f} MB", passes]
        rows.append("| " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    differ = sum(row.get("decisions_differ", 0) for row in record["rows"])
    said = (f"Differences are the largest over all outputs and examples, relative to the largest number where that is above 1. Of the decisions {differ} differ. "
            "ONNX's checker and its strict shape inference pass every file; the PyTorch models load the weights with `strict=True`. "
            f"Passes: median time of the graph with draws by that of the graph with the mean, in one run on one thread. {versions}.")
    return [*rows, "", said, origin(record, "onnx/roundtrip")]


def compressed():
    """Networks by size."""
    lines = []
    for name, title in [("resnet20", "ResNet-20, CIFAR-10"), ("imported", "ResNet-20 imported from ONNX, CIFAR-10")]:
        record = held(f"compress/{name}")
        if record is None:
            continue
        rows = [f"| {title} | parameters | of plain % | accuracy % | NLL | ECE % | with draws: accuracy % | NLL | ECE % |", "|---" * 9 + "|"]
        words = {"plain": "trained network", "one-size": "one size for all", "one-size-weighted": "one size, weighed by the loss", "by-layer": "sizes by layer"}
        numbers = lambda of: [f"{100 * of['accuracy']:.2f}", f"{of['nll']:.4f}", f"{100 * of['ece']:.2f}"]
        for point in [record["trained"], *record["curve"], {**record["chosen"], "chosen": True}]:
            drawn = numbers(point["drawn"]) if "drawn" in point else ["–"] * 3
            what = f"**chosen for {record['budget']}**" if "chosen" in point else words[point["way"]]
            rows.append("| " + " | ".join([what, f"{point['parameters']:,}", f"{100 * point['share']:.1f}", *numbers(point), *drawn]) + " |")
        if "tuned" in record:
            tuned = record["tuned"]
            what = f"… after {tuned['epochs']} epochs, calibrated" if "temperature" in tuned else f"… after {tuned['epochs']} epochs"
            rows.append("| " + " | ".join([what, f"{record['chosen']['parameters']:,}", f"{100 * record['chosen']['share']:.1f}", "–", "–", "–", *numbers(tuned["drawn"])]) + " |")
        draws = record["chosen"]["drawn"]["draws"]
        lines += [*rows, "", f"{record['test_images']:,} test images, {draws} weight draws, method {record['config']['method']}. {origin(record, f'compress/{name}')}", ""]
    return lines[:-1]
