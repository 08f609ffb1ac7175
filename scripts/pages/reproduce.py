"""Which command made which record, how long it took, and what to expect: docs/reproduce.md, and the last part of each page of results."""
from .records import ROOT, read  # noqa: F401

# page of docs/results, title, records, metrics to expect
SECTIONS = [
    ("curve", "The curve with a gap", "regression/*.json", ["reg/RMSE_truth", "reg/NLL", "reg/Coverage"]),
    ("uci", "UCI tables", "uci/*.json", ["reg/NLL", "reg/RMSE"]),
    ("cifar100", "CIFAR-100: main rows", "cifar100/[df]*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("recipe", "CIFAR-100: the paper's recipe", "cifar100/reference-*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("methods", "CIFAR-100: the short recipe of all methods", "cifar100/short-*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("camvid", "CamVid", "camvid/*.json", ["seg/mIoU", "seg/NLL", "seg/ECE"]),
]
# page of docs/results, what, command, records
OTHERS = [
    ("curve", "uncertainty on the curve", "`scripts/judge`", "`results/judge`"),
    ("uci", "gradient boosting beside fidgp", "`scripts/uci-trees`", "`results/uci/trees`"),
    ("uci", "comparisons", "`fidgp compare CONFIGS…`", "`results/compare`"),
    ("wrapped", "wrapped networks", "`fidgp wrap CONFIG --weights FILE`", "`results/wrap`"),
    ("methods", "times and operations", "`fidgp bench`, `fidgp complexity`", "`results/bench`"),
    ("ood", "out-of-distribution scores", "`fidgp ood MODEL --ood …`", "`results/ood`"),
    ("corruptions", "corrupted images", "`fidgp eval MODEL --corrupt`", "`results/corruptions`"),
    ("decisions", "guarantees over 200 divisions", "`scripts/decisions/run`", "`results/decision`"),
    ("serving", "the server and the Python package", "`scripts/serve/load --rival`, `scripts/serve/clients`, `scripts/python-times`", "`results/serve`"),
    ("serving", "sizes on disk", "`scripts/export-types`", "`results/export`"),
    ("speed", "speed", "`make bench`, `scripts/bench`", "`results/bench`"),
    ("", "robustness", "`scripts/fuzz`, `scripts/crash`, `scripts/serve/fuzz`", "`results/robustness`"),
]


def duration(seconds):
    if not seconds:
        return "–"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def rows(pattern, metrics):
    for path in sorted(ROOT.glob(f"results/{pattern}")):
        run = read(path.relative_to(ROOT / "results"))[0]
        if "metrics" not in run or not run.get("command"):
            continue
        values = [run["metrics"].get(name) for name in metrics]
        if all(value is None for value in values):
            continue
        where = run["hardware"]["gpu"] or run["hardware"]["cpu"].strip().split(" @")[0]
        said = " / ".join("–" if value is None else f"{value:.4g}" for value in values)
        yield f"| `{path.relative_to(ROOT)}` | {duration(run['time']['train_seconds'])} | {where} | {said} |"


def reproduce():
    """The whole page."""
    lines = [
        "# Reproduce",
        "",
        "Each record holds the command, the config, the seed, the commit and the hardware it was made with. One script makes it again:",
        "",
        "```sh",
        "scripts/reproduce results/uci/yacht-fidgp.json                        # command, time, hardware, numbers",
        "scripts/reproduce results/uci/yacht-fidgp.json --run --data ~/data    # runs it here and compares",
        "```",
        "",
        "With equal commit, seed and threads, a CPU gives equal numbers, except where its instruction set differs. On another machine or commit rounding differs, and training enlarges it. "
        "The script reports metrics that are off by more than 5 % (`--tolerance`). Tables of one seed can differ by more; the tables with several seeds say how much.",
        "",
    ]
    lines += ["## Trainings", "", "The last part of these pages lists every record with its time, its hardware and the numbers to expect:", ""]
    lines += [f"- [{title}](results/{page}.md#reproduce)" for page, title, pattern, _ in SECTIONS if any(ROOT.glob(f"results/{pattern}"))]
    lines += ["", "## Everything else", "", "| what | command | records |", "|---|---|---|", *(f"| {' | '.join(other)} |" for _, *other in OTHERS), ""]
    return "\n".join(lines)


def reproduced(page):
    """The last part of a page of results."""
    lines = []
    for at, title, pattern, metrics in SECTIONS:
        found = list(rows(pattern, metrics)) if at == page else []
        if found:
            said = "`scripts/reproduce RECORD --run --data FOLDER` repeats a training and compares ([how](../reproduce.md))."
            lines += [said, "", f"| record | training | on | {' / '.join(f'`{name}`' for name in metrics)} |", "|---|---|---|---|", *found, ""]
    others = [f"- {what[0].upper()}{what[1:]}: {command}, records in {records}." for at, what, command, records in OTHERS if at == page]
    return ["## Reproduce", "", *lines, *others, *([""] if others else [])] if lines or others else []
