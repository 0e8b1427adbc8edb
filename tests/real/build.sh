#!/usr/bin/env bash
# Builds the real control plane and clients from the Go module proxy, once, into a folder outside
# the tree. Prints that folder. KUBEBUILDER_ASSETS, when set, is used as it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kubernetes=v1.37.1
helm=v3.22.0
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
echo "$out"
