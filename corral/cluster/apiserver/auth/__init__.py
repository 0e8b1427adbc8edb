"""Authentication, authorization, certificates and the default policy of the embedded cluster.

Guarantees: a request is refused unless somebody known or anonymous makes it and a rule allows
it; refusals read as those of kube-apiserver 1.37. Nothing here does I/O except `pki`.

Where to read next: `pki` (files), `authentication` and `tokens` (who), `impersonation`,
`authorization` with `rbac` and `node` (may they), `escalation` (may they grant), `reviews`
and `token_request` (the API kinds about all this), `bootstrap` (what is there at first).
"""
