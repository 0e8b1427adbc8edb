"""The life of a TrainingJob: a pure decision, and the controller that carries it out."""
