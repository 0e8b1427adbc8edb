"""The generator of ``corral/v1``: the gRPC interface of the gateway, from one source each.

Written by hand are ``value``, ``errors``, ``objects``, ``status`` and ``jobs.proto`` in
``proto/corral/v1``. From them, from the models of `corral.api` and from Kubernetes' types
(``corral/cluster/apiserver/codec/types.json``) come the other .proto files, and from all of them
the Python modules. Everything lies in ``corral/v1``; nothing of it is in git.

``build`` decides whether anything is out of date and writes it; ``contents`` says what is to be
there: ``files`` makes the text of a .proto file out of ``messages`` and ``services``, ``compiler``
runs protoc. ``setup.py`` calls `build.generate`; ``python -m tools.protos`` does the same by hand.
"""
