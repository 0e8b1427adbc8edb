#!/usr/bin/env bash
# Builds the real control plane and clients from the Go module proxy, once, into a folder outside
# the tree. Prints that folder. KUBEBUILDER_ASSETS, when set, is used as it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kubernetes=v1.37.1
helm=v3.22.0
crane=v0.22.1
mpi_operator=v0.8.0
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then echo "$KUBEBUILDER_ASSETS"; exit; fi
out=${CORRAL_CACHE:-$HOME/.cache/corral}/real/bin-$kubernetes
mkdir -p "$out"
exec 9>"$out/.lock"; flock 9
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -trimpath -mod=mod"
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=37"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
need() { [ ! -x "$out/$1" ]; }
build() { # name package
  need "$1" || return 0
  (cd "$work/module" && go build -ldflags "$flags" -o "$work/$1" "$2") >&2 && mv "$work/$1" "$out/$1"
}
cp -r "$here" "$work/module"
build etcd go.etcd.io/etcd/server/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build kubectl k8s.io/kubernetes/cmd/kubectl
build kwok sigs.k8s.io/kwok/cmd/kwok
build metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server
if [ ! -s "$out/kwok-stages.yaml" ]; then # how kwok plays nodes and pods: the fast ones of its module
  stages=$(cd "$work/module" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for file in "$stages"/node/fast/*.yaml "$stages"/node/heartbeat-with-lease/*.yaml "$stages"/pod/fast/*.yaml; do
    case "$file" in */kustomization.yaml) continue ;; esac
    cat "$file"; echo; echo ---
  done >"$work/stages"
  mv "$work/stages" "$out/kwok-stages.yaml"
fi
if need helm; then
  GOFLAGS="-buildvcs=false -trimpath" GOBIN=$work go install "helm.sh/helm/v3/cmd/helm@$helm" >&2
  mv "$work/helm" "$out/helm"
fi
# A client of registries, and a registry, that are not ours.
if need crane; then
  GOFLAGS="-buildvcs=false -trimpath" GOBIN=$work go install \
    "github.com/google/go-containerregistry/cmd/crane@$crane" >&2
  mv "$work/crane" "$out/crane"
fi
# The peer of our MPIJobs, with its definition and examples. A module of its own: its versions are
# not those above. Without it, everything but the comparisons with it can go on.
peer=mpi-operator-$mpi_operator
build_peer() {
  local answer module
  answer=$(go mod download -json "github.com/kubeflow/mpi-operator@$mpi_operator") ||
    { echo "$answer"; return 1; }
  module=$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$answer")
  [ -n "$module" ] || return 1
  mkdir -p "$work/peer" && cp -r "$module" "$work/source" && chmod -R u+w "$work/source" || return 1
  cd "$work/source" || return 1
  # it listens for health checks on a port that others may have: any free one will do
  sed -i 's/healthCheckPort = 8080$/healthCheckPort = 0/' cmd/mpi-operator/app/server.go
  GOFLAGS="-buildvcs=false -trimpath" go build -ldflags "-s -w" -o "$work/peer/mpi-operator" \
    ./cmd/mpi-operator || return 1
  cp manifests/base/kubeflow.org_mpijobs.yaml "$work/peer/crd.yaml" || return 1
  cp -r examples/v2beta1 "$work/peer/examples" && mv "$work/peer" "$out/$peer"
}
if need "$peer/mpi-operator"; then
  rm -rf "${out:?}/$peer"
  (build_peer) >&2 || echo "mpi-operator was not built: comparisons with it are skipped" >&2
fi
echo "$out"
