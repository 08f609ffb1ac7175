"""The page docs/speed.md and the table of ratios, from the files under results/bench; scripts/readme writes them."""
import statistics

from pages.records import read


def bench(only="*"):
    """Ratios to PyTorch's deterministic network in the same run."""
    rows = ["| ResNet-18, M = 128, one training step and one prediction with K = 8, PyTorch deterministic = 1 | train step | predict, new draws | predict, draws kept | memory of training |", "|---|---|---|---|---|"]
    for run in read(f"bench/{only}.json"):
        times = run.get("samples")
        if times is None:
            continue
        median = lambda name, what: statistics.median(one[what] for one in times[name])
        base = next(iter(times))
        if not base.startswith("PyTorch"):
            continue
        for name in times:
            if name != base:
                cells = [f"{median(name, what) / median(base, what):.2f}" for what in ("train", "predict", "kept", "bytes")]
                rows.append(f"| {run['hardware']['gpu'] or run['hardware']['cpu']}, batch {run['batch']}: {name} | " + " | ".join(cells) + " |")
    return rows


ALL, OUTPUTS, FOUR, FOUR_OUTPUTS = (f"fidgp, FiD-GP 128 on {layers} layers, {draw}" for layers in ("all", "four") for draw in ("Matheron", "Reparam on outputs"))
TORCH = "PyTorch, deterministic"
# record, subject, what was timed, the floor by operation count, the aim
SPEED = [
    ("cuda-batch128", ALL, "train", None, 1.5),
    ("cuda-batch512", ALL, "train", None, 1.5),
    ("cuda-batch128", OUTPUTS, "train", None, 1.2),
    ("cuda-batch512", OUTPUTS, "train", None, 1.2),
    ("cuda-batch128", ALL, "predict", None, 8),
    ("cuda-batch128", OUTPUTS, "predict", None, 5),
    ("cuda-batch128", ALL, "bytes", None, 1.25),
    ("cuda-batch128", OUTPUTS, "bytes", None, 1.1),
    ("cpu-batch32", ALL, "bytes", None, 1.25),
    ("cpu-batch32", OUTPUTS, "bytes", None, 1.1),
    ("cpu-batch32", ALL, "train", 1.25, 1.4),
    ("cpu-batch32", OUTPUTS, "train", 0.82, 1.05),
    ("cpu-batch32", ALL, "predict", 9.6, 10.5),
    ("cpu-batch32", OUTPUTS, "predict", 6.0, 6.8),
    ("cpu-batch32", FOUR, "predict", 6.0, 6.6),
    ("cpu-batch32", FOUR_OUTPUTS, "predict", 4.6, 5.2),
    ("fcn-cuda-batch4", FOUR, "predict", 6.3, 7),
    ("fcn-cpu-batch1", FOUR, "predict", 6.3, 7),
    ("fcn-cpu-batch1", FOUR_OUTPUTS, "predict", 5.6, 7),
    ("fcn-cpu-batch1", FOUR.replace("four layers", "layer4.1"), "predict", 4.8, 5.5),
    ("fcn-cpu-batch1", FOUR_OUTPUTS.replace("four layers", "layer4.1"), "predict", 3.8, 4.4),
]
# record, subject, what was timed, the goal as a ratio to our own deterministic network
OWN = [
    *((f"cpu-batch{batch}", subject, "train", aim) for batch in (32, 128) for subject, aim in ((ALL, 1.25), (OUTPUTS, 1.1))),
    ("cpu-batch32", ALL, "kept", 7.5),
    ("cpu-batch128", ALL, "kept", 6),
    *((f"cpu-batch{batch}", subject, "predict", aim) for batch in (32, 128) for subject, aim in ((ALL, 10.5), (OUTPUTS, 6.8))),
    *((f"cuda-batch{batch}", subject, what, None) for batch in (128, 512) for subject in (ALL, OUTPUTS) for what in ("train", "kept", "bytes")),
]
# record, subject, what was timed, how many times faster than PyTorch's FFG-U we want to be
PEER = [
    ("cuda-batch128", ALL, "train", 10),
    ("cuda-batch128", OUTPUTS, "train", 10),
    ("cuda-batch512", ALL, "train", 6),
    ("cuda-batch512", OUTPUTS, "train", 6),
    ("cuda-batch128", ALL, "predict", 8),
    ("cuda-batch128", OUTPUTS, "predict", 13),
    ("cpu-batch32", ALL, "train", 1.35),
    ("cpu-batch32", OUTPUTS, "train", 1.8),
    ("cpu-batch32", ALL, "predict", 1.5),
    ("cpu-batch32", OUTPUTS, "predict", 2.3),
]
WHAT = {"train": "train step", "predict": "predict, K = 8, new draws", "kept": "predict, K = 8, draws kept", "bytes": "memory of training"}


def timed(file, subject, what):
    """The median of one subject, and where it was measured."""
    run = read(f"bench/{file}.json")[0]
    subject = subject or next(iter(run["samples"]))
    network = "FCN-ResNet50, " if file.startswith("fcn") else ""
    place = f"{network}{run['hardware']['gpu'] or 'CPU, ' + str(run['hardware']['cores']) + ' cores'}, batch {run['batch']}"
    return statistics.median(one[what] for one in run["samples"][subject]), place


def growth_on_gpu():
    """Least times on the GPU, value by value."""
    files = ("growth-cuda-printed", "growth-cuda-k", "growth-cuda-batch")
    axes = {axis["axis"]: axis["points"] for file in files for axis in read(f"bench/{file}.json")[0]["axes"]}
    least = lambda time: "–" if time is None else f"{time['least_ms']:.1f}"
    rows = ["| H200, batch 128, K = 8, ms | " + " | ".join(["value", "train step", "predict, new draws"]) + " |", "|---|---|---|---|"]
    for axis, label in (("m", "inducing size"), ("k", "draws K"), ("batch", "batch"), ("layers", "Bayesian layers")):
        points = axes[axis]
        column = lambda of: " / ".join(of(point) for point in points)
        rows.append(f"| {label} | {column(lambda point: str(point['value']))} | {column(lambda point: least(point['train']))} | {column(lambda point: least(point['predict']))} |")
    return ["On the GPU time hardly grows before the network fills the device, because launches dominate. The rows for inducing sizes and layers are copied from the terminal; their files were lost.", "", *rows]


def large_batch():
    """The CPU at a batch whose activations are larger than what the C library keeps by itself."""
    ratio = lambda subject, what: f"{timed('cpu-batch128', subject, what)[0] / timed('cpu-batch128', TORCH, what)[0]:.2f}"
    return f"## Large batches on the CPU\n\nBy default the C library returns memory blocks above 32 MiB to the system, which must clear their pages again. With a batch of 128 activations are larger than that. fidgp keeps such memory; PyTorch runs with its defaults. Our deterministic training step then takes {ratio('fidgp, deterministic', 'train')} of PyTorch's time, FiD-GP on all layers {ratio(ALL, 'train')} (`scripts/bench --device cpu --batch 128`)."


def adaptive():
    """How many draws a stated error takes."""
    draws = read("bench/adaptive.json")[0]["draws"]
    used = "; ".join(f"{bound}: {statistics.mean(of.values()):.0f} ({min(of.values())} to {max(of.values())})" for bound, of in draws.items())
    return f"## How many draws\n\nK is 8 above. `fidgp predict --tolerance` stops when no probability has a larger Monte Carlo error than a bound, checked every four draws. The included model with weight draws and running BatchNorm statistics needs this many draws (mean over eight pictures, smallest to largest, at most 64) for a bound of {used} (`scripts/bench --adaptive`)."


def asked_of_libtorch():
    """What a step asks of libtorch, from the counts of scripts/operators; nothing without them."""
    found = read("bench/operators.json")
    if not found:
        return []
    rows = ["| one training step | operator calls | of them computing | backward nodes | million instructions |", "|---|---|---|---|---|"]
    for row in found[0]["rows"]:
        cells = [f"{row[key]:,}" for key in ("operators", "computing", "backward_nodes")]
        rows.append(f"| {row['network']}: {row['method']} | " + " | ".join(cells) + f" | {row['instructions'] / 1e6:.1f} |")
    plain = {row["network"]: row for row in found[0]["rows"] if row["method"] == "deterministic"}
    ratios = [row["operators"] / plain[row["network"]]["operators"] for row in found[0]["rows"] if row["method"] != "deterministic" and row["network"] in plain]
    most = next(row["most"] for row in found[0]["rows"] if row["method"].startswith("FiD-GP"))
    named = ", ".join(f"`{name}` {count:.0f}" for name, count in list(most.items())[:8])
    return [
        "## What a step asks of libtorch",
        "",
        "Counted with valgrind on the CPU (`scripts/operators`), not timed. Calls that only make a view, allocate or ask for a shape are not computing. On the GPU",
        "layers of equal sizes are drawn together, so there are fewer.",
        "",
        *rows,
        "",
        f"A FiD-GP step makes {min(ratios):.0f}{f' to {max(ratios):.0f}' if len(ratios) > 1 else ''} times as many calls as the plain one; most often {named}. The goal for an MLP of a",
        "table is four times the plain step. It needs factors and draws as few operators with a backward pass of their own, which is not done.",
        "",
    ]


def speed():
    """Floors, aims and what is measured, as ratios to the deterministic network at the same batch."""
    rows = ["| | floor | goal | measured | |", "|---|---|---|---|---|"]
    for file, subject, what, floor, aim in SPEED:
        ours, place = timed(file, subject, what)
        ratio = ours / timed(file, None, what)[0]
        verdict = "reached" if ratio <= aim else "missed"
        rows.append(f"| {place}: {subject.removeprefix('fidgp, ')}, {WHAT[what]} | {floor or '–'} | {aim} | {ratio:.2f} | {verdict} |")
    peer = ["| times faster than PyTorch's FFG-U 128 on all layers | goal | measured | |", "|---|---|---|---|"]
    for file, subject, what, aim in PEER:
        ours, place = timed(file, subject, what)
        ratio = timed(file, "PyTorch, FFG-U 128 on all layers", what)[0] / ours
        peer.append(f"| {place}: {subject.removeprefix('fidgp, ')}, {WHAT[what]} | {aim} | {ratio:.2f} | {'reached' if ratio >= aim else 'missed'} |")
    own_rows = ["| our own deterministic network = 1 | goal | measured | |", "|---|---|---|---|"]
    for file, subject, what, aim in OWN:
        ours, place = timed(file, subject, what)
        ratio = ours / timed(file, "fidgp, deterministic", what)[0]
        verdict = "" if aim is None else "reached" if ratio <= aim else "missed"
        own_rows.append(f"| {place}: {subject.removeprefix('fidgp, ')}, {WHAT[what]} | {aim or '–'} | {ratio:.2f} | {verdict} |")
    milliseconds = lambda subject, what: " and ".join(f"{timed(f'cuda-batch{batch}', subject, what)[0]:.1f}" for batch in (128, 512))
    own = " and ".join(f"{timed(f'cuda-batch{batch}', ALL, 'train')[0] / timed(f'cuda-batch{batch}', 'fidgp, deterministic', 'train')[0]:.1f}" for batch in (128, 512))
    text = [
        "# Speed",
        "",
        "All times are relative to a deterministic network with the same batch in the same run: for ResNet-18 that of PyTorch, for FCN-ResNet50 (pictures of",
        "360 × 480) our own. Inducing matrices are 128 × 128. `make bench` and `scripts/bench --network fcn` measure them; `results/bench` has samples, commits and",
        "commands. All rows of ResNet-18 are in [the results](results/speed.md). `scripts/readme` writes this page.",
        "",
        "## Goals",
        "",
        "The floor is the ratio of counted multiplications. ResNet-18 on the GPU has none: there small matrices cost kernel launches, not arithmetic.",
        "",
        *rows,
        "",
        f"On the H200 PyTorch's deterministic training step is limited by launches: it takes {milliseconds(TORCH, 'train')} ms with batch 128 and 512. Ours, captured as a",
        f"graph, takes {milliseconds('fidgp, deterministic', 'train')} ms. FiD-GP on all layers takes {milliseconds(ALL, 'train')} ms, {own} times as long as our deterministic step.",
        "",
        "## Against our own deterministic network",
        "",
        "What being Bayesian costs, whatever PyTorch takes: the same training step or prediction, in the same run, without inducing weights. A prediction with K = 8",
        "is eight passes and the drawing of weights; with draws that are kept it is eight passes.",
        "",
        *own_rows,
        "",
        "The records hold times, not profiles: where a goal is missed no cause is given.",
        "",
        *asked_of_libtorch(),
        "## Against FFG-U in PyTorch",
        "",
        *peer,
        "",
        "## How time grows",
        "",
        "On the CPU, with inducing size M, draws K, batch and number of Bayesian layers. Points are measured; lines show the count of multiplications, drawn through",
        "the last point (`fidgp bench --grow`, `results/bench/growth-cpu.json`). Below M = 128 and for small batches other costs dominate: random numbers, launches, memory.",
        "",
        "![Time against inducing size, draws, batch and Bayesian layers](bench-growth.svg)",
        "",
        *growth_on_gpu(),
        "",
        large_batch(),
        "",
        adaptive(),
        "",
        "## Reparam on outputs",
        "",
        "These rows have `inducing.noise = \"outputs\"`, which is another posterior: in a convolution every position has the exact marginal, but positions no longer",
        "share one weight draw.",
        "",
    ]
    return "\n".join(text)
