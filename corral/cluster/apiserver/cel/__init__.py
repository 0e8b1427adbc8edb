"""CEL with Kubernetes' libraries: compile an expression, evaluate it on JSON values.

The engine behind it is loaded on first use. Read ``engine`` for the interface, ``library`` for
the functions, ``schema_types`` for type-checking against a CRD's schema.
"""

from __future__ import annotations

from corral.cluster.apiserver.cel.authorization import AUTHORIZER, Authorize
from corral.cluster.apiserver.cel.engine import CelError, CompileError, Program, compile

__all__ = ["AUTHORIZER", "Authorize", "CelError", "CompileError", "Program", "compile"]
