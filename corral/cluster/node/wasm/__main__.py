"""``python -m corral.cluster.node.wasm``: runs the module of the plan in the environment."""

from corral.cluster.node.wasm.runner import main

main()
