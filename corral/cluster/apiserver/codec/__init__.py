"""The typed codec of the built-in kinds: what a real API server's Go structs do to an object.

A real server decodes every body into a Go struct and prints that struct again. This package gives
the same result for JSON, YAML and protobuf bodies, and the same refusals, from the facts in
``types.json``, which ``tools/gen_wire.py`` reads out of the Go struct tags. Nothing here sets
defaults or validates; custom resources have no struct, and do not come here.
"""

from corral.cluster.apiserver.codec.decode import Decoded, decode_json, normalise, strict_error
from corral.cluster.apiserver.codec.protobuf import MAGIC, decode_protobuf
from corral.cluster.apiserver.codec.restore import restore_error, whole_numbers
from corral.cluster.apiserver.codec.stored import emptied
from corral.cluster.apiserver.codec.types import Field, Message, Type, message, message_for
from corral.cluster.apiserver.codec.yaml_body import REPEATED_KEYS, parse_patch, parse_yaml

__all__ = [
    "MAGIC",
    "REPEATED_KEYS",
    "Decoded",
    "Field",
    "Message",
    "Type",
    "decode_json",
    "decode_protobuf",
    "emptied",
    "message",
    "message_for",
    "normalise",
    "parse_patch",
    "parse_yaml",
    "restore_error",
    "strict_error",
    "whole_numbers",
]
