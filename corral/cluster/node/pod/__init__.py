"""One pod on the node: its life cycle as a state machine, and the worker that carries it out."""
