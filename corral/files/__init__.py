"""Folders and paths on a machine that others use too. Standard library only.

* ``private``: folders of our own, which nobody else can enter, prepare or exchange.
* ``beneath``: paths that somebody else chose, followed without leaving the folder they belong to.
* ``removal``: removing a folder that somebody else filled.
* ``archives``: reading archives that somebody else wrote.
"""
