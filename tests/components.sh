#!/usr/bin/env bash
# Fetches the programs and libraries that the tests need and pip's extra cannot give, side by side,
# into ${CORRAL_CACHE:-~/.cache/corral}: one of each matrix, or with `all` every one. What is there
# is left alone. What cannot be fetched is said, and its cases are skipped (tests/support/components.py).
#
#   tests/components.sh [all]
set -uo pipefail
cd "$(dirname "$0")"
mpis="openmpi5 mpich" clients="helm crane mpi-examples"
if [ "${1:-}" = all ]; then mpis="openmpi5 openmpi4 mpich intel" clients="$clients kubectl"; fi
command -v kubectl >/dev/null || clients="$clients kubectl" # where the machine has none of its own
logs=$(mktemp -d); trap 'rm -rf "$logs"' EXIT

fetch() { # WHAT TOOL COMMAND…
  local began=$SECONDS log=$logs/${1%% *}
  if ! command -v "$2" >/dev/null; then
    echo "components: $1: left out, as this machine has no $2"
  elif ! "${@:3}" >"$log" 2>&1; then
    echo "components: $1: left out, as ${*:3} failed:"
    tail -n 15 "$log" | sed 's/^/  /'
  elif [ $((SECONDS - began)) -gt 2 ]; then
    echo "components: $1: fetched in $((SECONDS - began)) s"
  fi
}
modules() { # the federated client as a WebAssembly module, and a task that tries what it must not
  ../examples/federated/build.sh && ../examples/federated/build.sh hostile cluster/federated_clients/hostile.c
}
python=${PYTHON:-python3}
# shellcheck disable=SC2086  # each word is a name
{
  fetch "MPI ($mpis)" "$python" mpi/install.sh $mpis &
  fetch "sshd" apt-get mpi/install.sh sshd &
  fetch "clouds' libraries" "$python" clouds/install.sh &
  fetch "azurite" npm stores/build.sh azurite &
  fetch "WebAssembly modules" "$python" modules &
  # one after the other: each takes all processors
  { fetch "versitygw" go stores/build.sh versitygw; fetch "$clients" go real/build.sh $clients; } &
  wait
}
