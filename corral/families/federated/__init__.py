"""Federated learning on proplets: the controllers of ``propeller.absmach.io``.

`tasks` and `groups` run modules on proplets; `jobs`, `rounds` and `checkpoints` learn by them:
`learning` adds those. Decisions are pure (`rounds.state`, `jobs.state`), numbers are the engine's
(`folding`, loaded when the first round is aggregated), and registries are reached by `models`.
"""
