"""The optional part in C: without a compiler everything is there, only slower."""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("corral/federated/native")

setup(
    ext_modules=[
        Extension(
            "corral.federated.native.kernel",
            sources=[str(NATIVE / "kernel.c")],
            depends=sorted(str(header) for header in NATIVE.glob("*.h")),
            # no contraction: on every processor the same operations, each rounded by itself
            extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-strict-aliasing"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
