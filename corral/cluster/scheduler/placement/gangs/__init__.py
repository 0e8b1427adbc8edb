"""Gang scheduling: PodGroups, all-or-nothing placement and preemption."""
