"""The gRPC interface: messages (``*_pb2``), client stubs (``*_pb2_grpc``) and their .proto files.

All of it is generated when the package is built or installed (``tools/protos``); docs/grpc.md says
how to use it.
"""

from importlib.util import find_spec as _find_spec

if _find_spec(f"{__name__}.jobs_pb2") is None:
    raise ImportError(
        "corral.v1 is empty: its modules are generated when corral is installed. "
        "Run `make install` in this checkout, or `pip install` with the checkout's path."
    )
