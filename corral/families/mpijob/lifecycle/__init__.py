"""The life of an MPIJob: a pure decision, and the controller that carries it out."""
