"""Pods and everything that carries a pod template."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.cluster.compare.values import (
    Value,
    annotations,
    fields,
    flags,
    int_or_percent,
    keyed,
    ports,
    quantities,
    rarely,
    references,
    resources,
    seconds,
    selector_terms,
    selectors,
    small,
    subset,
    texts,
    words,
)

probes = st.one_of(
    fields(
        {"httpGet": fields({"port": st.one_of(ports, st.just("web"))}, path=st.just("/ok"))},
        periodSeconds=seconds,
        initialDelaySeconds=small,
        failureThreshold=rarely(small, st.just(-1)),
    ),
    fields({"exec": fields({"command": st.just(["true"])})}, timeoutSeconds=seconds),
    fields({"tcpSocket": fields({"port": ports})}, successThreshold=st.just(1)),
    fields({"grpc": fields({"port": ports})}),
)
environment = keyed(
    "name",
    ["A", "B", "C"],
    st.one_of(
        fields(value=texts),
        fields(
            {
                "valueFrom": st.one_of(
                    fields({"fieldRef": fields({"fieldPath": st.just("metadata.name")})}),
                    fields({"secretKeyRef": fields({"name": words, "key": words}, optional=flags)}),
                    fields({"configMapKeyRef": fields({"name": words, "key": words})}),
                )
            }
        ),
    ),
)
container_rest = fields(
    {"image": rarely(st.sampled_from(["busybox", "nginx:1.25", "r.io/x@sha256:aa"]), st.just(""))},
    command=subset(["sh", "-c", "true"]),
    args=subset(["1", "2"]),
    env=environment,
    ports=keyed(
        "containerPort",
        [80, 443, 8080],
        fields(
            name=rarely(st.sampled_from(["web", "tls"]), st.just("Bad Name")),
            protocol=rarely(st.sampled_from(["TCP", "UDP"]), st.just("XYZ")),
        ),
        high=2,
    ),
    resources=resources,
    imagePullPolicy=rarely(st.sampled_from(["Always", "IfNotPresent"]), st.just("Sometimes")),
    livenessProbe=probes,
    readinessProbe=probes,
    volumeMounts=keyed("mountPath", ["/a", "/b"], fields({"name": words}, readOnly=flags), high=2),
    securityContext=fields(
        runAsUser=rarely(small, st.just(-1)),
        privileged=flags,
        capabilities=fields(add=subset(["NET_ADMIN", "SYS_TIME"]), drop=st.just(["ALL"])),
    ),
    workingDir=st.just("/w"),
    tty=flags,
)
volumes = keyed(
    "name",
    ["alpha", "beta", "gamma", "delta"],
    st.one_of(
        fields({"emptyDir": fields(sizeLimit=quantities)}),
        fields({"configMap": fields({"name": words}, defaultMode=st.sampled_from([420, 256]))}),
        fields({"secret": fields({"secretName": words}, optional=flags)}),
        fields({"hostPath": fields({"path": st.just("/tmp")})}),
        fields({"persistentVolumeClaim": fields({"claimName": words})}),
    ),
)
spreads = keyed(
    "topologyKey",
    ["zone", "host"],
    fields(
        {
            "maxSkew": rarely(st.integers(1, 3), st.just(0)),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        },
        labelSelector=selectors,
    ),
    high=2,
)
_node_terms = st.lists(fields({"matchExpressions": selector_terms}), min_size=1, max_size=1)


def pod_spec(*, restart: tuple[str, ...] = ("Always",)) -> Value:
    return fields(
        {"containers": keyed("name", ["main", "side", "third"], container_rest, low=1)},
        initContainers=keyed("name", ["first", "second"], container_rest, high=1),
        volumes=volumes,
        restartPolicy=rarely(st.sampled_from(restart), st.just("Maybe")),
        terminationGracePeriodSeconds=rarely(small, st.just(-1), 40),
        nodeSelector=st.dictionaries(words, words, max_size=2),
        serviceAccountName=st.just("default"),
        tolerations=st.lists(
            fields(
                {"key": words, "operator": st.just("Exists")},
                effect=rarely(st.sampled_from(["NoSchedule", "NoExecute"]), st.just("Never")),
            ),
            max_size=2,
        ),
        hostAliases=keyed(
            "ip", ["10.0.0.1", "10.0.0.2"], fields({"hostnames": subset(["a", "b"])}), high=2
        ),
        imagePullSecrets=keyed("name", ["alpha", "beta"], fields(), high=2),
        topologySpreadConstraints=spreads,
        affinity=fields(
            nodeAffinity=fields(
                requiredDuringSchedulingIgnoredDuringExecution=fields(
                    {"nodeSelectorTerms": _node_terms}
                )
            ),
        ),
        securityContext=fields(
            fsGroup=small,
            runAsNonRoot=flags,
            supplementalGroups=subset([1, 2, 3]),
            sysctls=keyed("name", ["net.a", "net.b"], fields({"value": words}), high=2),
        ),
        dnsPolicy=rarely(st.sampled_from(["Default", "ClusterFirst"]), st.just("Odd")),
        hostNetwork=flags,
        schedulingGates=keyed("name", ["example.com/g"], fields(), high=1),
    )


# One label that every selector finds, so that most templates match.
template_labels = st.fixed_dictionaries(
    {"app": rarely(st.just("alpha"), words, 15)}, optional={"tier": words}
)
template_selectors = st.just({"matchLabels": {"app": "alpha"}})


def template(**how: tuple[str, ...]) -> Value:
    return fields(
        {"metadata": fields({"labels": template_labels}, annotations=annotations)},
    ).flatmap(lambda t: pod_spec(**how).map(lambda spec: {**t, "spec": spec}))


def deployment_spec() -> Value:
    return fields(
        {"selector": template_selectors, "template": template()},
        replicas=rarely(small, st.sampled_from([-1, "3", 2.5])),
        strategy=st.one_of(
            fields({"type": st.just("Recreate")}),
            fields(
                {"type": rarely(st.just("RollingUpdate"), st.just("Recreate"))},
                rollingUpdate=fields(maxSurge=int_or_percent, maxUnavailable=int_or_percent),
            ),
        ),
        minReadySeconds=small,
        paused=flags,
        revisionHistoryLimit=small,
        progressDeadlineSeconds=st.integers(5, 9),
    )


def stateful_spec() -> Value:
    claim = fields(
        {
            "metadata": references,
            "spec": fields(
                {
                    "accessModes": st.just(["ReadWriteOnce"]),
                    "resources": st.just({"requests": {"storage": "1Gi"}}),
                }
            ),
        }
    )
    return fields(
        {
            "selector": template_selectors,
            "template": template(),
            "serviceName": words,
        },
        replicas=small,
        podManagementPolicy=rarely(
            st.sampled_from(["Parallel", "OrderedReady"]), st.just("Random")
        ),
        updateStrategy=fields(
            {"type": rarely(st.just("RollingUpdate"), st.just("OnDelete"))},
            rollingUpdate=fields(partition=small),
        ),
        volumeClaimTemplates=st.lists(claim, max_size=1),
        minReadySeconds=small,
    )


def job_spec() -> Value:
    return fields(
        {"template": template(restart=("Never", "OnFailure"))},
        parallelism=rarely(small, st.just(-1)),
        completions=small,
        backoffLimit=small,
        activeDeadlineSeconds=seconds,
        ttlSecondsAfterFinished=small,
        suspend=flags,
        completionMode=rarely(st.sampled_from(["NonIndexed", "Indexed"]), st.just("Odd")),
        podReplacementPolicy=st.sampled_from(["Failed", "TerminatingOrFailed"]),
    )


def cron_spec() -> Value:
    return fields(
        {
            "schedule": rarely(
                st.sampled_from(["*/5 * * * *", "0 0 * * 1", "@hourly"]),
                st.sampled_from(["", "nope", "61 * * * *", "TZ=UTC 0 * * * *"]),
                8,
            ),
            "jobTemplate": fields({"spec": job_spec()}),
        },
        concurrencyPolicy=rarely(st.sampled_from(["Allow", "Forbid", "Replace"]), st.just("No")),
        suspend=flags,
        startingDeadlineSeconds=seconds,
        successfulJobsHistoryLimit=small,
        timeZone=rarely(st.just("Etc/UTC"), st.just("Mars/Base")),
    )
