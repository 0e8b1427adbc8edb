#!/usr/bin/env bash
# Builds the client (or NAME from SOURCES) as a WebAssembly module for WASI, and prints its path.
#
#   examples/federated/build.sh [NAME SOURCE...]
#
# The first of these that works is used: $CC with $WASI_SYSROOT, $WASI_SDK_PATH, clang with wasi-libc
# (Debian: clang lld wasi-libc libclang-rt-dev-wasm32), zig, the wheel `ziglang` in a venv of its own,
# and as root on Debian those packages. All that is made goes to ${CORRAL_CACHE:-~/.cache/corral}/wasm.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${CORRAL_CACHE:-$HOME/.cache/corral}/wasm
name=${1:-client}
if [ $# -gt 1 ]; then sources=("${@:2}"); else sources=("$here"/client/*.c); fi
flags=(-std=c17 -O2 -s -ffp-contract=off -Wall -Wextra -Wl,-z,stack-size=1048576)

mkdir -p "$cache"
headers=()
for source in "${sources[@]}"; do headers+=("$(dirname "$source")"/*.h); done
seal=$(for file in "${sources[@]}" "${headers[@]}"; do [ ! -e "$file" ] || cat "$file"; done |
  { cat; echo "${flags[*]}"; } | sha256sum | cut -c1-16)
out=$cache/$name-$seal.wasm
exec 9>"$cache/.lock"; flock 9
if [ -s "$out" ]; then echo "$out"; exit; fi

work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR=$cache/zig-cache ZIG_LOCAL_CACHE_DIR=$work/zig
attempt() { # compiler and its options
  "$@" "${flags[@]}" -o "$work/out.wasm" "${sources[@]}" >"$work/log" 2>&1
}
has() { command -v "$1" >/dev/null; }

given() { [ -n "${WASI_SYSROOT:-}" ] && attempt "${CC:-clang}" --target=wasm32-wasi --sysroot="$WASI_SYSROOT"; }
sdk() { [ -n "${WASI_SDK_PATH:-}" ] && attempt "$WASI_SDK_PATH/bin/clang"; }
system_clang() {
  local clang
  for clang in $(compgen -c clang | grep -E '^clang(-[0-9]+)?$' | sort -Vru); do
    attempt "$clang" --target=wasm32-wasi && return
    attempt "$clang" --target=wasm32-wasi --sysroot=/usr && return
  done
  return 1
}
system_zig() { has zig && attempt zig cc --target=wasm32-wasi; }
wheel() {
  local venv=$cache/zig python=${PYTHON:-python3} lock=$here/../../requirements/wasm.lock
  if ! cmp -s "$lock" "$venv/.complete"; then
    rm -rf "$venv"
    "$python" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet \
      --disable-pip-version-check --retries 1 --only-binary :all: --require-hashes -r "$lock" &&
      cp "$lock" "$venv/.complete"
  fi >"$work/log" 2>&1 || return 1
  attempt "$venv/bin/python" -m ziglang cc --target=wasm32-wasi
}
packages() {
  [ "$(id -u)" = 0 ] && has apt-get &&
    apt-get install -qq -y --no-install-recommends clang lld wasi-libc libclang-rt-dev-wasm32 \
      >"$work/log" 2>&1 && system_clang
}

for way in given sdk system_clang system_zig wheel packages; do
  if "$way"; then mv "$work/out.wasm" "$out"; echo "$out"; exit; fi
  if [ -s "$work/log" ]; then echo "$way:"; sed 's/^/  /' "$work/log"; : >"$work/log"; fi >>"$work/why"
done
[ ! -e "$work/why" ] || tail -n 40 "$work/why" >&2
echo "no compiler for WebAssembly: install clang, lld and wasi-libc, or let pip install ziglang" >&2
exit 1
