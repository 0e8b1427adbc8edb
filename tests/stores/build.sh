#!/usr/bin/env bash
# Gets the store servers that the tests use, once, into a folder outside the tree. Prints it.
set -euo pipefail
out=${CORRAL_CACHE:-$HOME/.cache/corral}/stores
mkdir -p "$out/bin"
exec 9>"$out/.lock"; flock 9
if [ ! -x "$out/bin/versitygw" ]; then
  GOBIN=$out/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >&2
fi
if [ ! -x "$out/azurite/node_modules/.bin/azurite-blob" ]; then # 3.35.0: the last one for Node 20
  npm install --no-fund --no-audit --prefix "$out/azurite" azurite@3.35.0 >&2
fi
echo "$out"
