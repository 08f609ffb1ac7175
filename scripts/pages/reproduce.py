"""docs/reproduce.md: which command made which record, how long it took, and what to expect."""
from .records import ROOT, read  # noqa: F401

SECTIONS = [
    ("The curve with a gap", "regression/*.json", ["reg/RMSE_truth", "reg/NLL", "reg/Coverage"]),
    ("UCI tables", "uci/*.json", ["reg/NLL", "reg/RMSE"]),
    ("CIFAR-100: main rows", "cifar100/[df]*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("CIFAR-100: the paper's recipe", "cifar100/reference-*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("CIFAR-100: the short recipe of all methods", "cifar100/short-*.json", ["cls/Acc", "cls/NLL", "cal/ECE"]),
    ("CamVid", "camvid/*.json", ["seg/mIoU", "seg/NLL", "seg/ECE"]),
]
OTHERS = [
    ("Wrapped networks", "`fidgp wrap CONFIG --weights FILE`", "`results/wrap`"),
    ("Out of distribution", "`fidgp ood MODEL --ood …`", "`results/ood`"),
    ("Speed", "`make bench`, `scripts/bench`", "`results/bench`"),
    ("Comparisons", "`fidgp compare CONFIGS…`", "`results/compare`"),
    ("Promises over 200 divisions", "`scripts/decisions/run`", "`results/decision`"),
    ("Gradient boosting beside fidgp on UCI tables", "`scripts/uci-trees`", "`results/uci/trees`"),
    ("The 1-D judge", "`scripts/judge`", "`results/judge`"),
    ("Serving", "`scripts/serve/load --rival`, `scripts/serve/clients`, `scripts/python-times`", "`results/serve`"),
    ("Sizes on disk", "`scripts/export-types`", "`results/export`"),
    ("Robustness", "`scripts/fuzz`, `scripts/crash`, `scripts/serve/fuzz`", "`results/robustness`"),
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
    for title, pattern, metrics in SECTIONS:
        found = list(rows(pattern, metrics))
        if found:
            lines += [f"## {title}", "", f"| record | training | on | {' / '.join(f'`{name}`' for name in metrics)} |", "|---|---|---|---|", *found, ""]
    lines += ["## Everything else", "", "| what | command | records |", "|---|---|---|", *(f"| {' | '.join(other)} |" for other in OTHERS), ""]
    return "\n".join(lines)
