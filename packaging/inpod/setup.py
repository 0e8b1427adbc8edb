"""What pyproject.toml cannot say: the version of Corral itself, and which modules stay out."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CORRAL = Path(__file__).resolve().parents[2] / "corral"
NEED_CORRAL = {"confine", "courier", "snapshots"}
"""Earlier names of modules of `corral.podtools`, which is not in this distribution."""


class Modules(build_py):
    """Copies `corral.inpod` without the modules that need the rest of Corral."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if module[1] not in NEED_CORRAL]


def version() -> str:
    """The one that Corral has."""
    text = (CORRAL / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


setup(version=version(), cmdclass={"build_py": Modules})
