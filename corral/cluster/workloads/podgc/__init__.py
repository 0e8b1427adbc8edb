"""Removes pods that nobody else will: those of nodes that are gone, and old finished ones.

``plan`` says which (pure); ``controller`` removes them.
"""
