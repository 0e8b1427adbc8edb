"""CustomResourceDefinitions: checking them, and handling the objects they define.

``definition`` defaults and validates the CRD itself, ``conditions`` says what its status must be,
``structural`` compiles one version into the functions its objects go through.
"""

from __future__ import annotations

__all__: list[str] = []
