"""What protoc makes of proto/corral/v1: messages (``*_pb2``) and client stubs (``*_pb2_grpc``).

Made by tools/gen_proto.py; nothing here is written by hand. docs/grpc.md says how to use it.
"""
