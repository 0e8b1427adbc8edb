"""The node: pods as real processes. ``agent`` is where to begin.

From the ground up; of these only the last two groups speak to an API server:

* :mod:`shim` is what stands beside every container: a small process, standard library only, that
  outlives the agent, keeps the log and writes down how it ended;
* :mod:`containers` starts, adopts, signals and enters containers through their shims, and
  :mod:`sessions` joins one to a client's exec or attach streams;
* :mod:`logs`, :mod:`volumes`, :mod:`environment`, :mod:`images`, :mod:`resources`, :mod:`identity`,
  :mod:`isolation` and :mod:`groups` each give a container one part of what its pod asks for;
* :mod:`lifecycle` decides what happens when, and :mod:`reports` (with :mod:`slots` and
  :mod:`statuses`) says so in a pod's status; both are pure. :mod:`probes` and :mod:`hooks` do the
  same for probes, hooks and the end of a container; :mod:`fit` says who is let in;
* :mod:`object_sources`, :mod:`tokens` and :mod:`claims` bring what a pod refers to, :mod:`stage`
  makes its sandbox and volumes of it, :mod:`launcher` its containers; :mod:`network` is a package
  of its own;
* :mod:`pod_worker` lives for one pod (with :mod:`container_runs` and :mod:`status_writer`),
  :mod:`pod_table` has one for each, :mod:`adoption` tells it what an earlier agent left,
  :mod:`registration` is the Node and its heartbeat, :mod:`pod_access` what :mod:`server` may ask.
"""
