"""The real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from corral.cluster.apiserver.auth.pki import ensure_pki
from tests.backends.base import Backend, free_port
from tests.backends.embedded import TOKENS
from tests.backends.real_metrics import aggregation_flags, registration, server_flags

BUILD = Path(__file__).parent.parent / "real" / "build.sh"


@cache
def real_binaries() -> Path:
    """The folder with kube-apiserver and friends; built when missing."""
    found = subprocess.run([str(BUILD)], check=True, stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip().splitlines()[-1])


class RealBackend(Backend):
    """kube-apiserver with etcd in memory; everything in it is thrown away at the end."""

    name = "real"
    token = "admin-token"

    def __init__(self, folder: Path, *, controllers: bool = True) -> None:
        super().__init__(folder)
        self._controllers = controllers
        self._etcd_data = ""
        self._has_metrics = False

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pki = ensure_pki(self.folder / "pki")
        key, public = self._signing_key()
        tokens = self.folder / "tokens.csv"
        tokens.write_text(TOKENS)
        memory = Path("/dev/shm")
        self._etcd_data = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
        client, peer, port = free_port(), free_port(), free_port()
        self.server = f"https://127.0.0.1:{port}"
        self.ca_file = str(pki.ca.cert_file)
        binaries = real_binaries()
        etcd = f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self.spawn(
            "etcd", str(binaries / "etcd"), "--data-dir", self._etcd_data,
            "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}", "--unsafe-no-fsync", "--log-level", "warn",
        )  # fmt: skip
        self.spawn(
            "kube-apiserver", str(binaries / "kube-apiserver"), f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1", f"--secure-port={port}",
            f"--tls-cert-file={pki.serving.cert_file}",
            f"--tls-private-key-file={pki.serving.key_file}",
            f"--client-ca-file={pki.ca.cert_file}", f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={public}", f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
            f"--kubelet-client-certificate={pki.kubelet_client.cert_file}",
            f"--kubelet-client-key={pki.kubelet_client.key_file}",
            "--kubelet-preferred-address-types=InternalIP",
            "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
            "--profiling=false", "--enable-admission-plugins=NodeRestriction",
            *aggregation_flags(pki),
        )  # fmt: skip
        self.write_kubeconfig()
        self.wait_ready()
        if self._controllers:
            self._start_controllers(binaries, key, pki.ca.cert_file, pki.ca.key_file)

    def _start_controllers(self, binaries: Path, key: Path, ca: Path, ca_key: Path) -> None:
        config = self.folder / "kcm.kubeconfig"
        config.write_text(self.kubeconfig.read_text().replace("admin-token", "workloads-token"))
        self.spawn(
            "kube-controller-manager", str(binaries / "kube-controller-manager"),
            f"--kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", f"--service-account-private-key-file={key}",
            f"--root-ca-file={ca}", f"--cluster-signing-cert-file={ca}",
            f"--cluster-signing-key-file={ca_key}", "--use-service-account-credentials=true",
            "--kube-api-qps=500", "--kube-api-burst=1000",
            # what it only looks at now and then: nobody has to wait for the default 15 s and more
            "--pvclaimbinder-sync-period=1s", "--resource-quota-sync-period=10s",
        )  # fmt: skip
        settings = self.folder / "scheduler.json"
        settings.write_text(json.dumps(self._scheduler_settings()))
        self.spawn(
            "kube-scheduler", str(binaries / "kube-scheduler"), f"--config={settings}",
            "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
        )  # fmt: skip

    def start_metrics(self) -> None:
        """Start metrics-server, once; nodes that run have figures some ten seconds later."""
        if self._has_metrics:
            return
        self._has_metrics = True
        port = free_port()
        flags = server_flags(str(self.kubeconfig), str(self.folder / "metrics"), port=port)
        self.spawn("metrics-server", str(real_binaries() / "metrics-server"), *flags)
        for path, obj in registration(port):
            reply = self.request("POST", path, obj)
            assert reply.code == 201, reply.body

    def _scheduler_settings(self) -> dict[str, Any]:
        config = self.folder / "scheduler.kubeconfig"
        config.write_text(self.kubeconfig.read_text().replace("admin-token", "scheduler-token"))
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(config), "qps": 500, "burst": 1000},
        }

    def _signing_key(self) -> tuple[Path, Path]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private, public = self.folder / "sa.key", self.folder / "sa.pub"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return private, public

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._etcd_data, ignore_errors=True)
