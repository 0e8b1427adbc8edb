"""The controllers of Corral's own kinds, one package a family.

Each builds on `corral.runtime` and exports ``register(manager, settings)``, which adds it to a
manager. None knows which process it runs in; `corral.operator` puts them together.
"""
