"""What the build adds to pyproject.toml: generated gRPC stubs, and an optional part in C."""

import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build import build

ROOT = Path(__file__).parent
NATIVE = Path("corral/learning/native")


class GenerateStubs(Command):
    """Generates ``corral/v1`` in the source tree, from where the build takes it."""

    description = "generate the gRPC stubs of corral/v1"
    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        sys.path.insert(0, str(ROOT))
        from tools.protos.build import generate

        generate()


class Build(build):
    """Generates before anything is copied; an editable install runs the same steps."""

    sub_commands: ClassVar = [("generate_stubs", None), *build.sub_commands]


# Without a compiler everything is there, only slower.
KERNEL = Extension(
    "corral.learning.native.kernel",
    sources=[str(NATIVE / "kernel.c")],
    depends=sorted(str(header) for header in NATIVE.glob("*.h")),
    # no contraction: on every processor the same operations, each rounded by itself
    extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-strict-aliasing"],
    extra_link_args=["-pthread"],
    optional=True,
)

STARTER = Extension(
    "corral.cluster.node.shim.native",
    sources=["corral/cluster/node/shim/native.c"],
    extra_compile_args=["-std=gnu11", "-O2", "-fno-strict-aliasing"],
    optional=True,
)

setup(ext_modules=[KERNEL, STARTER], cmdclass={"build": Build, "generate_stubs": GenerateStubs})
