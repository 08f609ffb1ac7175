"""Builds the package with maturin, after the checkout's own set-up has fetched libtorch and pointed Cargo at it.

maturin builds one compiled module. The other one, which needs no libtorch, is built first and laid among the Python sources.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import maturin
from maturin import (  # noqa: F401  (hooks that pip calls)
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).resolve().parent
SETUP = HERE.parent / "scripts" / "setup"
METRICS = HERE / "package" / "fidgp" / "_metrics.abi3.so"


def set_up():
    if not SETUP.exists():
        sys.exit(f"fidgp is built inside a checkout of its repository, but {SETUP} is not there")
    done = subprocess.run([sys.executable, str(SETUP)], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    build_metrics()


def build_metrics():
    command = ["cargo", "build", "--locked", "--release", "--package", "fidgp-python-metrics"]
    variables = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1"}
    said = [*command, "--message-format", "json-render-diagnostics"]
    done = subprocess.run(said, cwd=HERE, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    files = [file for one in found if one.get("target", {}).get("name") == "_metrics" for file in one.get("filenames", [])]
    if len(files) != 1:
        sys.exit(f"Cargo should have made one _metrics module, it made {files}")
    fresh = METRICS.with_suffix(".new")
    shutil.copyfile(files[0], fresh)
    os.replace(fresh, METRICS)  # a process that has the old one open keeps it


def build_wheel(*arguments, **settings):
    set_up()
    return maturin.build_wheel(*arguments, **settings)


def build_editable(*arguments, **settings):
    set_up()
    return maturin.build_editable(*arguments, **settings)
