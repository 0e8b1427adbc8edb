"""The node: pods as real processes.

Nothing here speaks to an API server. From the ground up:

* :mod:`shim` is what stands beside every container: a small process, standard library only, that
  outlives the agent, keeps the log and writes down how it ended;
* :mod:`containers` starts, adopts, signals and enters containers through their shims, and
  :mod:`sessions` joins one to a client's exec or attach streams;
* :mod:`logs`, :mod:`volumes`, :mod:`environment`, :mod:`images`, :mod:`resources`, :mod:`isolation`
  (with :mod:`addresses`, :mod:`networks` and :mod:`groups`) each give a container one part of what
  its pod asks for;
* :mod:`lifecycle` decides what happens when, and :mod:`statuses` says so in a pod's status; both
  are pure. :mod:`probes` and :mod:`hooks` do the same for probes, hooks and the end of a container.
"""
