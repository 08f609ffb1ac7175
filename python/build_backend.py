"""Builds the package with maturin, after the checkout's own set-up has fetched libtorch and pointed Cargo at it."""
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

SETUP = Path(__file__).resolve().parent.parent / "scripts" / "setup"


def set_up():
    if not SETUP.exists():
        sys.exit(f"fidgp is built inside a checkout of its repository, but {SETUP} is not there")
    done = subprocess.run([sys.executable, str(SETUP)], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def build_wheel(*arguments, **settings):
    set_up()
    return maturin.build_wheel(*arguments, **settings)


def build_editable(*arguments, **settings):
    set_up()
    return maturin.build_editable(*arguments, **settings)
