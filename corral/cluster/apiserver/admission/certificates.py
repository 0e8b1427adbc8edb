"""Certificate signing requests: who may approve and sign, and what may not be asked for."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.kube.types import Obj

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["CertificateRequests", "parse_request"]

GROUP = "certificates.k8s.io"
TABLE = f"{GROUP}/certificatesigningrequests"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class CertificateRequests(Plugin):
    """CertificateApproval, CertificateSigning and CertificateSubjectRestriction."""

    tables = frozenset({TABLE})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, request: AdmissionRequest) -> None:
        if request.object is None:
            return
        match request.subresource:
            case "approval":
                self._require(request, "approve")
            case "status":
                if _signing(request.object) != _signing(request.old or {}):
                    self._require(request, "sign")
            case "":
                _check_subject(request, request.object)

    def _require(self, request: AdmissionRequest, verb: str) -> None:
        signer = ((request.old or {}).get("spec") or {}).get("signerName", "")
        if not self._may(request.context.user, verb, signer):
            why = f'user not permitted to {verb} requests with signerName "{signer}"'
            raise refuse(request, why)

    def _may(self, user: UserInfo, verb: str, signer: str) -> bool:
        """By the signer's own name or by all names of its domain."""
        domain = signer.partition("/")[0]
        return any(
            self._authorizer.authorize(
                Attributes(user, verb, "", GROUP, "*", "signers", "", name)
            ).allowed
            for name in (signer, f"{domain}/*")
        )


def _signing(obj: Obj) -> tuple[object, object]:
    status = obj.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _check_subject(request: AdmissionRequest, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    if spec.get("signerName") != CLIENT_SIGNER:
        return
    try:
        parsed = parse_request(spec.get("request") or "")
    except ValueError as why:
        raise refuse(request, f"failed to parse CSR: {why}") from None
    from cryptography.x509.oid import NameOID

    groups = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if any(group.value == MASTERS for group in groups):
        raise refuse(request, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def parse_request(encoded: str) -> x509.CertificateSigningRequest:
    """A PEM certificate request in base64. Raises ValueError."""
    # Imported here: reading certificates is rare and the library is large.
    from cryptography import x509

    try:
        pem = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        pem = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    return x509.load_pem_x509_csr(pem)
