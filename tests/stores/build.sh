#!/usr/bin/env bash
# Gets the store servers that the tests use, once, into a folder outside the tree: all of them, or
# those that are named. Prints that folder. Two of these may run at the same time.
#
#   tests/stores/build.sh [versitygw azurite]
set -euo pipefail
out=${CORRAL_CACHE:-$HOME/.cache/corral}/stores
mkdir -p "$out/bin"
for name in ${*:-versitygw azurite}; do
  exec 9>"$out/.lock-$name"; flock 9
  case "$name" in
    versitygw)
      [ -x "$out/bin/$name" ] ||
        CGO_ENABLED=0 GOBIN=$out/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >&2 ;;
    azurite) # 3.35.0: the last one for Node 20
      [ -x "$out/azurite/node_modules/.bin/azurite-blob" ] ||
        npm install --no-fund --no-audit --prefix "$out/azurite" azurite@3.35.0 >&2 ;;
    *) echo "$0: $name is none of versitygw, azurite" >&2; exit 2 ;;
  esac
done
echo "$out"
