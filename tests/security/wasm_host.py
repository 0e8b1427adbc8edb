"""The host of a module as one finds it who broke out of wasmtime: native code in its process.

``python wasm_host.py PLAN ATTEMPTS``: confines itself as the host does, then makes the attempts of
`model_code_attacks` and prints how each went.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import multiprocessing.shared_memory  # noqa: F401  (nothing can be imported later)

    from model_code_attacks import attempt

    from corral.cluster.node.wasm.confinement import confine_host
    from corral.cluster.node.wasm.plan import Folder, Plan

    value = json.loads(sys.argv[1])
    value["folders"] = [Folder(**folder) for folder in value["folders"]]
    confine_host(Plan(**value))
    for name, *arguments in json.loads(sys.argv[2]):
        print(json.dumps(attempt(name, [str(argument) for argument in arguments])), flush=True)


if __name__ == "__main__":
    main()
