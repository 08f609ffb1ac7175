"""Reading records under results/, and saying where they come from."""
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def read(pattern):
    """Records; a number that is not finite, which stands there as a text, is None."""
    texts = [path.read_text().replace('"not finite"', "null") for path in sorted(ROOT.glob(f"results/{pattern}"))]
    return [json.loads(text) for text in texts]


def spread(runs, metric, factor, digits):
    values = [run["metrics"][metric] * factor for run in runs]
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def distinct(values):
    return sorted(set(values), key=lambda value: (len(str(value)), str(value)))


def made_by(runs):
    """Seeds and commits of some runs, as two cells."""
    seeds, commits = distinct(run["seed"] for run in runs), distinct(run["commit"][:7] for run in runs)
    return f"{', '.join(map(str, seeds))} | {', '.join(commits)}"


def places(runs):
    """What some runs were made on."""
    return " and ".join(distinct(run["hardware"]["gpu"] or run["hardware"]["cpu"].strip() for run in runs))


def origin(*patterns):
    """Where the records of a table lie, and under which seeds, at which commits and on what they were made."""
    runs = [run for pattern in patterns for run in read(pattern)]
    if not runs:
        return ""
    several = lambda word, values: f"{word}{'s' if len(values) > 1 else ''} {', '.join(map(str, values))}"
    seeds = distinct(run["seed"] for run in runs if "seed" in run)
    folders = " and ".join(distinct(f"`results/{pattern.split('/')[0]}`" for pattern in patterns))
    said = [folders, *([several("seed", seeds)] if seeds else []), several("commit", distinct(f"`{run['commit'][:7]}`" for run in runs)), places(runs)]
    return f"*Records: {'; '.join(said)}.*"
