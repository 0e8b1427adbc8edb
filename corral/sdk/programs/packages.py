"""Python packages that a program needs and its image may not have.

Before the program starts, what is missing is installed with pip into a folder of the pod; what the
image (or the machine of a process node) has already is not fetched again, so that nothing needs a
network that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.kube.types import Obj

__all__ = ["FOLDER", "environment", "mounts", "volumes", "with_packages"]

FOLDER: Final = "/corral/packages"
_VOLUME: Final = "corral-packages"

_INSTALLER: Final = """\
import importlib.metadata, os, subprocess, sys
folder = os.environ["CORRAL_PACKAGES_DIR"]
def there(text):
    try:
        from pip._vendor.packaging.requirements import Requirement
        wanted = Requirement(text)
        version = importlib.metadata.version(wanted.name)
    except Exception:
        return False
    return not wanted.extras and wanted.specifier.contains(version, prereleases=True)
missing = [text for text in os.environ["CORRAL_PACKAGES"].splitlines() if not there(text)]
if missing:
    print("installing", *missing, file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", folder, *missing])
    if done.returncode:
        sys.exit("corral: the packages of the job could not be installed: " + ", ".join(missing))
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def with_packages(command: Sequence[str], packages: Sequence[str]) -> list[str]:
    """The command after what it needs is there."""
    return ["python", "-c", _INSTALLER, *command] if packages else list(command)


def environment(packages: Sequence[str], index_url: str = "") -> list[Obj]:
    if not packages:
        return []
    out = [
        {"name": "CORRAL_PACKAGES", "value": "\n".join(packages)},
        {"name": "CORRAL_PACKAGES_DIR", "value": FOLDER},
    ]
    return [*out, {"name": "PIP_INDEX_URL", "value": index_url}] if index_url else out


def volumes(packages: Sequence[str]) -> list[Obj]:
    return [{"name": _VOLUME, "emptyDir": {}}] if packages else []


def mounts(packages: Sequence[str]) -> list[Obj]:
    return [{"name": _VOLUME, "mountPath": FOLDER}] if packages else []
