#!/usr/bin/env bash
# Builds the real control plane and clients from the Go module proxy, once, into a folder outside
# the tree: all of them, or those that are named. Prints that folder. KUBEBUILDER_ASSETS, when set,
# is used as it is. Two of these may run at the same time.
#
#   tests/real/build.sh [etcd kube-apiserver … kubectl helm crane mpi-examples mpi-operator]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kubernetes=v1.37.1
helm=v3.22.0
crane=v0.22.1
mpi_operator=v0.8.0
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then echo "$KUBEBUILDER_ASSETS"; exit; fi
out=${CORRAL_CACHE:-$HOME/.cache/corral}/real/bin-$kubernetes
mkdir -p "$out"
export CGO_ENABLED=0 GOTOOLCHAIN=local
plain="-buildvcs=false -trimpath"
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=37"
work=$(mktemp -d "$out/.work.XXXXXX"); trap 'rm -rf "$work"' EXIT # what is done is moved out of it

of_module() { # NAME PACKAGE: of the module beside this script
  [ -d "$work/module" ] || cp -r "$here" "$work/module"
  (cd "$work/module" && GOFLAGS="$plain -mod=mod" go build -ldflags "$flags" -o "$work/$1" "$2") >&2
  mv "$work/$1" "$out/$1"
}
released() { # NAME PACKAGE@VERSION
  GOFLAGS=$plain GOBIN=$work go install "$2" >&2
  mv "$work/$1" "$out/$1"
}
stages() { # how kwok plays nodes and pods: the fast ones of its module
  [ -d "$work/module" ] || cp -r "$here" "$work/module"
  local file folder
  folder=$(cd "$work/module" && GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for file in "$folder"/node/fast/*.yaml "$folder"/node/heartbeat-with-lease/*.yaml "$folder"/pod/fast/*.yaml; do
    case "$file" in */kustomization.yaml) continue ;; esac
    cat "$file"; echo; echo ---
  done >"$work/stages"
  mv "$work/stages" "$out/kwok-stages.yaml"
}

# The peer of our MPIJobs, with its definition and examples. A module of its own: its versions are
# not those above. Without it, everything but the comparisons with it can go on.
peer=mpi-operator-$mpi_operator
peer_module() {
  local answer module
  answer=$(go mod download -json "github.com/kubeflow/mpi-operator@$mpi_operator") ||
    { echo "$answer" >&2; return 1; }
  module=$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$answer")
  [ -n "$module" ] && echo "$module"
}
peer_examples() {
  local module
  module=$(peer_module)
  rm -rf "${out:?}/$peer/examples"
  mkdir -p "$out/$peer"
  cp -r "$module/examples/v2beta1" "$work/examples" && chmod -R u+w "$work/examples"
  cp "$module/manifests/base/kubeflow.org_mpijobs.yaml" "$work/crd.yaml"
  mv "$work/examples" "$work/crd.yaml" "$out/$peer"
}
peer_program() {
  local module
  module=$(peer_module)
  cp -r "$module" "$work/source" && chmod -R u+w "$work/source"
  # it listens for health checks on a port that others may have: any free one will do
  sed -i 's/healthCheckPort = 8080$/healthCheckPort = 0/' "$work/source/cmd/mpi-operator/app/server.go"
  (cd "$work/source" && GOFLAGS=$plain go build -ldflags "-s -w" -o "$work/mpi-operator" ./cmd/mpi-operator) >&2
  mv "$work/mpi-operator" "$out/$peer/mpi-operator"
}

once() { # FILE COMMAND…: unless the file is there already; one at a time
  (flock 9; [ -s "$out/$1" ] || "${@:2}") 9>"$out/.lock-${1//\//-}"
}
make_one() {
  case "$1" in
    etcd) once "$1" of_module "$1" go.etcd.io/etcd/server/v3 ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl)
      once "$1" of_module "$1" "k8s.io/kubernetes/cmd/$1" ;;
    kwok) once "$1" of_module "$1" "sigs.k8s.io/kwok/cmd/$1" && once kwok-stages.yaml stages ;;
    metrics-server) once "$1" of_module "$1" "sigs.k8s.io/metrics-server/cmd/$1" ;;
    helm) once "$1" released "$1" "helm.sh/helm/v3/cmd/helm@$helm" ;;
    # a client of registries, and a registry, that are not ours
    crane) once "$1" released "$1" "github.com/google/go-containerregistry/cmd/crane@$crane" ;;
    mpi-examples) once "$peer/crd.yaml" peer_examples ;;
    mpi-operator) once "$peer/mpi-operator" peer_program ;;
    *) echo "$0: $1 is none of what is built here" >&2; return 2 ;;
  esac
}
everything="etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok metrics-server helm crane mpi-examples"
for name in ${*:-$everything}; do make_one "$name"; done
if [ $# = 0 ] && ! "$0" mpi-operator >/dev/null; then
  echo "mpi-operator was not built: comparisons with it are skipped" >&2
fi
echo "$out"
