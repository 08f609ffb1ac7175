"""What the scripts beside this file share: a small training, where it stands, and of what a record is."""
import hashlib
import json
import os
import platform
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = ROOT / "configs/regression-left.toml"
SMALL = [
    "network.hidden=[20, 20]", "inducing.inducing_rows=8", "inducing.inducing_cols=8", "data.train=56", "data.validation=20",
    "data.test=50", "predict.draws=4", "train.batch_size=8", "train.checkpoint_every=1", "train.schedule={kind=\"constant\"}",
    "train.kl={ml_epochs=1, annealing_epochs=1}", "train.sync_norm=true",
]


def program(given):
    """The command, which must be of this commit: records say what made them."""
    path = Path(given).resolve()
    if not path.is_file():
        raise SystemExit(f"{path} is not there: cargo build --release, or --fidgp FILE")
    return path


def words(out, epochs, *more):
    """A training of so many epochs into a folder."""
    settings = [*SMALL, f"train.epochs={epochs}", *more]
    return ["train", str(CONFIG), "--device", "cpu", "--out", str(out), *[word for one in settings for word in ("--set", one)]]


def environment(timeout=60):
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "FIDGP_GROUP_TIMEOUT": str(timeout), "NO_COLOR": "1"}


def progress(run):
    """Epoch and step of the last checkpoint; zeros where there is none."""
    try:
        with open(run / "checkpoint/last.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        said = json.loads(header["__metadata__"]["progress"])
        return said["epoch"], said["step"]
    except FileNotFoundError:
        return 0, 0


def logged(run):
    """The last epoch in metrics.jsonl."""
    try:
        lines = (run / "metrics.jsonl").read_text().split("\n")
    except FileNotFoundError:
        return 0
    whole = [line for line in lines if line.endswith("}")]
    return json.loads(whole[-1])["epoch"] if whole else 0


def outcome(run):
    """What must not depend on what happened on the way: metrics, weights, losses of all epochs."""
    with open(run / "checkpoint/last.safetensors", "rb") as file:
        file.seek(8 + struct.unpack("<Q", file.read(8))[0])
        weights = hashlib.sha256(file.read()).hexdigest()
    last = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        said = json.loads(line)
        last[said["epoch"]] = said["loss"]
    return {"metrics": results(run)["metrics"], "weights_sha256": weights, "losses": last}


def results(run):
    return json.loads((run / "results.json").read_text())


def differences(one, other):
    """What differs between two outcomes, by name."""
    return [name for name in one if one[name] != other[name]]


def made(command, run):
    """Of what a record is: the command, the commit of the program that trained, the machine."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    machine = {"cpu": cpu, "cores": os.cpu_count(), "gpu": None, "system": platform.platform()}
    return {"command": command, "commit": results(run)["commit"], "hardware": machine}


def keep(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    temporary.rename(path)
    print(f"kept in {path}")
