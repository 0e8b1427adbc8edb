#!/usr/bin/env bash
# Gets Apache Kafka with its console tools through Maven, once, into a folder outside the tree, and
# checks every file against kafka.sha256. Prints the folder of the jars.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${CORRAL_CACHE:-$HOME/.cache/corral}/kafka/4.3.1
mkdir -p "$out"
exec 9>"$out/.lock"; flock 9
check() { (cd "$out/libs" 2>/dev/null && sha256sum --check --quiet --strict "$here/kafka.sha256") >&2; }
if [ ! -f "$out/.complete" ]; then
  rm -rf "$out/libs"
  mvn -B -q -f "$here/kafka-pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$out/libs" >&2
  check
  touch "$out/.complete"
fi
echo "$out/libs"
