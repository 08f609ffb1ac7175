"""One libtorch for the whole process, loaded when the first model is opened or trained.

The compiled module needs `libtorch_cpu.so` and `libc10.so`, and so does PyTorch. The dynamic linker keeps one library of
each name: whoever comes first decides for both. So PyTorch's own are loaded where PyTorch is installed, and those that
`scripts/setup` fetched where it is not.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator, Optional

VERSION = "2.11.0"
LIBRARIES = ("libc10.so", "libtorch_cpu.so")

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@contextlib.contextmanager
def short_waits() -> Iterator[None]:
    """Has libgomp's threads sleep soon when they wait for each other, as the command does, unless the user says how.

    libgomp reads the environment once, when it is loaded. By default its threads turn round for milliseconds, which on a
    busy machine takes the cores from those they wait for.
    """
    if any(name in os.environ for name in WAITING):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _installed() -> Optional[tuple[Path, str]]:
    """The folder and the version of PyTorch, not imported; or nothing."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text()
    except OSError:
        return None
    found = re.search(r"__version__ = '([^']+)'", text)
    return (folder, str(found[1])) if found else None


def _fits(version: str) -> bool:
    return version.split("+")[0] == VERSION


def _refusal(version: str, when: str) -> ImportError:
    return ImportError(
        f"PyTorch {version} cannot be used {when}: both need libtorch, and a process has one of them. fidgp is built for "
        f"{VERSION}: `pip install torch=={VERSION}`, or use fidgp and torch in separate processes"
    )


class _Guard(Loader):
    """Refuses to import a PyTorch of another version once fidgp's libtorch is loaded, which would crash. Who only asks
    whether there is one is answered as before."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        found = _installed() if name == "torch" else None
        if found is None or _fits(found[1]):
            return None
        return ModuleSpec(name, self, origin=str(found[0] / "__init__.py"), is_package=True)

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return None

    def exec_module(self, module: ModuleType) -> None:
        found = _installed()
        raise _refusal(found[1] if found else "that is gone", "in a process in which fidgp has opened a model")


def prepare() -> None:
    """Loads libtorch for the compiled module; raises ImportError where there is one that does not fit."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    if version is not None:
        if not _fits(str(version)):
            raise _refusal(str(version), "beside fidgp")
        return
    found = _installed()
    if found and _fits(found[1]):
        for library in LIBRARIES:
            path = found[0] / "lib" / library
            if path.exists():
                ctypes.CDLL(str(path))
    if not any(isinstance(finder, _Guard) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Guard())


def compiled() -> ModuleType:
    """The compiled module that needs libtorch."""
    with short_waits():
        prepare()
        try:
            from . import _fidgp
        except ImportError as error:
            raise explained(error) from error
    return _fidgp


def explained(error: ImportError) -> ImportError:
    """What to do where the compiled module does not load."""
    return ImportError(
        f"fidgp's compiled module does not load: {error}. It needs libtorch {VERSION}: run scripts/setup of the checkout "
        f"it was built in, or `pip install torch=={VERSION}`"
    )
