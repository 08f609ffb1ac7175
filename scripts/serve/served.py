"""A running `fidgp serve` for the scripts beside this file. Python's own library is enough."""
import http.client
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = ROOT / "models/cifar100-resnet18-fidgp"


def commit_of(run):
    """The commit that the program was built from, as it wrote it beside what it trained."""
    return json.loads((Path(run) / "results.json").read_text())["commit"]


def made(command, commit):
    """Of what a record is: the command, the commit of the program, the machine."""
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"command": command, "commit": commit, "hardware": {"gpu": None, "cpu": names[0] if names else "", "cores": os.cpu_count()}}


def drawn_copy(folder):
    """The shipped model without its linearised posterior: it draws weights, as it was trained to."""
    copy = Path(folder) / "drawn"
    if not copy.exists():
        shutil.copytree(SHIPPED, copy, ignore=shutil.ignore_patterns("posterior.*"))
    return copy


def fidgp(program, *words, cwd=None):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, cwd=cwd or ROOT)
    if done.returncode != 0:
        raise SystemExit(f"fidgp {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def table_model(program, folder):
    """A calibrated model of a small table, trained in seconds."""
    run = folder / "houses"
    if (run / "calibration.json").exists():
        return run
    rng, lines = random.Random(1), ["size,age,price"]
    for _ in range(600):
        size, age = rng.random(), rng.random()
        lines.append(f"{size:.6f},{age:.6f},{1000 + 300 * size - 100 * age + rng.gauss(0, 15):.6f}")
    (folder / "houses.csv").write_text("\n".join(lines) + "\n")
    settings = ["data.path=houses.csv", "data.target=price", "train.epochs=60", "data.validation_fraction=0.3"]
    fidgp(program, "train", ROOT / "configs/table.toml", "--data", folder, "--out", run, "--device", "cpu", "--threads", 1,
          *[word for setting in settings for word in ("--set", setting)])
    fidgp(program, "calibrate", run, "--data", folder, "--device", "cpu", "--threads", 1)
    return run


def customers_model(program, folder):
    """A calibrated model of a table with texts, dates, yes and no, and gaps, that gives classes."""
    run = folder / "customers"
    if (run / "calibration.json").exists():
        return run
    rng, lines = random.Random(2), ["city,size,member,since,outcome"]
    for _ in range(600):
        city, size, member = rng.choice(["Bonn", "Kiel", "Ulm"]), 10 * rng.random(), rng.random() < 0.5
        leaves = rng.random() < (0.85 if city == "Kiel" and not member else 0.1 + 0.03 * size)
        shown = "" if rng.random() < 0.05 else f"{size:.2f}"
        lines.append(f"{city},{shown},{'yes' if member else 'no'},2024-01-{rng.randint(1, 28):02},{'leaves' if leaves else 'stays'}")
    (folder / "customers.csv").write_text("\n".join(lines) + "\n")
    fidgp(program, "init", folder / "customers.csv", "--target", "outcome", "--out", folder / "customers.toml")
    fidgp(program, "train", folder / "customers.toml", "--out", run, "--device", "cpu", "--threads", 1,
          "--set", "train.epochs=60", "--set", "data.validation_fraction=0.3")
    fidgp(program, "calibrate", run, "--device", "cpu", "--threads", 1)
    return run


class Served:
    """`with Served(program, ["name=folder"], "--log", file) as server`: ended at the end, whatever happens."""

    def __init__(self, program, models, *words):
        command = [str(program), "serve", *models, "--port", "0", "--device", "cpu", *map(str, words)]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace")
        self.said, said = [], queue.Queue()
        threading.Thread(target=self._listen, args=(said,), daemon=True).start()
        while True:
            try:
                line = said.get(timeout=300)
            except queue.Empty:
                line = None
            if line is None:
                self.process.kill()
                raise SystemExit("it does not serve:\n" + "\n".join(self.said))
            if "://127.0.0.1:" in line:
                self.port = int(line.split("://127.0.0.1:")[1].split()[0])
                return

    def _listen(self, said):
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))
            said.put(line)
        said.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(45)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and bytes of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        said = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return said

    def json(self, method, path, body=None):
        """Status and JSON of an answer."""
        sent = None if body is None else json.dumps(body)
        status, _, answer = self.ask(method, path, sent, {"Content-Type": "application/json"})
        return status, json.loads(answer)

    def kib(self):
        """Resident memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def bugs(self):
        """What the program says where something was not foreseen."""
        return [line for line in self.said if "internal error at" in line or "panicked" in line]


def program():
    """The program that is tested: target/release/fidgp, or FIDGP."""
    found = os.environ.get("FIDGP", ROOT / "target/release/fidgp")
    if not Path(found).exists():
        raise SystemExit(f"{found} is missing: cargo build --locked --release -p fidgp-cli")
    return Path(found).resolve()
