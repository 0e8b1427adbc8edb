"""The process beside a container. Standard library only; it is started without site packages.

:mod:`zygote` is a process that has everything imported and forks a shim for each request;
:mod:`supervisor` is the shim. What it promises:

* it lives until every process of the container is gone, whatever becomes of the agent;
* it takes the folder's claim before it starts anything, so no container is started twice;
* ``state.json`` is replaced atomically: running, then how it ended;
* output is never lost and never unbounded: who reads slowly slows the writer down.
"""
