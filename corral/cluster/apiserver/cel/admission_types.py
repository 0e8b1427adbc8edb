"""Type-checking the expressions of admission: match conditions, validations, mutations.

``object``, ``oldObject`` and ``params`` have no types; ``request``, ``namespaceObject`` and
``variables`` do. Problems are worded as kube-apiserver words them.
"""

from __future__ import annotations

import re
from typing import Any

from corral.cluster.apiserver.cel import patch_types
from corral.cluster.apiserver.cel.engine import UNKNOWN_TYPE, CompileError, result_type
from corral.cluster.apiserver.cel.schema_types import SchemaTypes
from corral.kube.types import Obj

__all__ = ["Checker"]

_TEXT: Obj = {"type": "string"}
_DYN: Obj = {"x-kubernetes-int-or-string": True}
_TEXTS: Obj = {"type": "array", "items": _TEXT}
_TIME: Obj = {"type": "string", "format": "date-time"}
_LABELS: Obj = {"type": "object", "additionalProperties": _TEXT}


def _object(**fields: Obj) -> Obj:
    return {"type": "object", "properties": fields}


_GVK = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_GVR = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_REQUEST = _object(
    kind=_GVK,
    resource=_GVR,
    subResource=_TEXT,
    requestKind=_GVK,
    requestResource=_GVR,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(
        username=_TEXT,
        uid=_TEXT,
        groups=_TEXTS,
        extra={"type": "object", "additionalProperties": _TEXTS},
    ),
    dryRun={"type": "boolean"},
    options=_DYN,
)
_CONDITION = _object(
    status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_LABELS,
        annotations=_LABELS,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds={"type": "integer"},
        deletionTimestamp=_TIME,
        generation={"type": "integer"},
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(conditions={"type": "array", "items": _CONDITION}, phase=_TEXT),
)
_SCALARS: dict[str, Obj] = {
    "BOOL": {"type": "boolean"},
    "INT": {"type": "integer"},
    "DOUBLE": {"type": "number"},
    "STRING": _TEXT,
    "BYTES": {"type": "string", "format": "byte"},
    "TIMESTAMP": _TIME,
    "DURATION": {"type": "string", "format": "duration"},
}
_GO_NAMES = {
    "NULL": "null_type",
    "DURATION": "google.protobuf.Duration",
    "TIMESTAMP": "google.protobuf.Timestamp",
}
_AUTHORIZATION = re.compile(r"kubernetes\.(?=Authorizer|PathCheck|GroupCheck|ResourceCheck|Decis)")
_UPPER = re.compile(r"\b[A-Z]+\b")
_MESSAGE = re.compile(r"\bschema\.Object\d+\b")


def _schema_of(engine_type: str) -> Obj:
    """A schema whose values have a type, as far as schemas can say it."""
    if engine_type.startswith("LIST<"):
        return {"type": "array", "items": _schema_of(engine_type[5:-1])}
    if engine_type.startswith("MAP<STRING, "):
        return {"type": "object", "additionalProperties": _schema_of(engine_type[12:-1])}
    return _SCALARS.get(engine_type, _DYN)


class Checker:
    """The types in force for the expressions of one policy (or of one list of conditions)."""

    def __init__(self, *, params: bool = False, composed: bool = False) -> None:
        self._params = params
        self._variables: dict[str, Obj] | None = {} if composed else None
        self._built: tuple[dict[str, str], dict[str, str], SchemaTypes] | None = None
        self._pool: Any = None

    def add_variable(self, name: str, expression: str) -> str:
        """Check a variable and declare it, whatever is wrong with it; the problem or nothing."""
        found, problem = self._type_of(expression, authorizer=True, patches=False)
        if self._variables is not None:
            if name.isidentifier():
                self._variables[name] = _schema_of(found)
            self._built = None
        return problem

    def problem(
        self, expression: str, *returns: str, authorizer: bool = True, patches: bool = False
    ) -> str:
        """What is wrong with an expression that is to have one of these types; or nothing."""
        found, problem = self._type_of(expression, authorizer=authorizer, patches=patches)
        if problem or found == UNKNOWN_TYPE:
            return problem
        got = self._shown(found)
        if got in returns:
            return ""
        wanted = returns[0] if len(returns) == 1 else f"one of [{' '.join(returns)}]"
        return f"must evaluate to {wanted} but got {got}"

    def _type_of(self, expression: str, *, authorizer: bool, patches: bool) -> tuple[str, str]:
        types, _, schemas = self._declared()
        if authorizer:
            types = {
                **types,
                "authorizer": "Authorizer",
                "authorizer.requestResource": "ResourceCheck",
            }
        names: set[str] = set()
        if patches:
            expression, names = patch_types.flatten(expression)
        pool = self._pool
        if names:
            pool = schemas.finish()
            patch_types.add_messages(pool, expression, names)
        try:
            found = result_type(expression, types, pool=pool)
        except CompileError as why:
            text = self._shown_names(patch_types.restore(str(why), names))
            return "", f"compilation failed: {text}"
        return patch_types.restore(found, names), ""

    def _declared(self) -> tuple[dict[str, str], dict[str, str], SchemaTypes]:
        if self._built is None:
            schemas = SchemaTypes(escaped=False)
            types = {"object": "dyn", "oldObject": "dyn"}
            types["request"] = str(schemas.of(_REQUEST))
            types["namespaceObject"] = str(schemas.of(_NAMESPACE))
            names = {
                types["request"]: "kubernetes.AdmissionRequest",
                types["namespaceObject"]: "kubernetes.Namespace",
            }
            if self._variables is not None:
                types["variables"] = str(schemas.of(_object(**self._variables)))
                names[types["variables"]] = "kubernetes.variables"
            if self._params:
                types["params"] = "dyn"
            self._built = (types, names, schemas)
            self._pool = schemas.finish()
        return self._built

    def _shown_names(self, text: str) -> str:
        _, names, _ = self._declared()
        text = _MESSAGE.sub(lambda m: names.get(m[0], m[0]), text)
        return _AUTHORIZATION.sub("kubernetes.authorization.", text)

    def _shown(self, engine_type: str) -> str:
        """A type as Go's CEL prints it."""
        text = self._shown_names(engine_type).replace("<", "(").replace(">", ")")
        return _UPPER.sub(lambda m: _GO_NAMES.get(m[0], m[0].lower()), text)
