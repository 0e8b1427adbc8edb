"""TrainingRound: tasks for all participants, enough updates of theirs, one model."""
