"""Pods on an agent, from Pending to gone."""

from __future__ import annotations

import asyncio

from agent_world import GPUS, World, state, waiting_reason
from node_waiting import until

from corral.kube.resources import CONFIGMAPS, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS


async def test_a_pod_runs_and_succeeds(world: World) -> None:
    await world.start()
    script = "echo hello; echo why > $0; sleep 0.2"
    await world.run("sh", "-c", script, "/dev/termination-log")
    running = await world.phase("Running")
    assert state(running)["ready"] and state(running)["started"]
    assert state(running)["containerID"].startswith("corral://")
    assert running["status"]["podIP"] and running["status"]["hostIP"]
    conditions = {c["type"]: c["status"] for c in running["status"]["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"),
        "True",
    )
    assert running["status"]["observedGeneration"] == running["metadata"]["generation"]
    done = await world.phase("Succeeded")
    ended = state(done)["state"]["terminated"]
    assert ended["exitCode"] == 0 and ended["reason"] == "Completed"
    assert ended["message"] == "why\n"
    assert world.log(done) == "hello"
    for reason in ("Pulled", "Created", "Started"):
        (event,) = await world.events("pod", reason)
        assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
        assert event["source"] == {"component": "kubelet", "host": world.node}


async def test_exit_codes_signals_and_messages(world: World) -> None:
    await world.start()
    await world.run(
        "sh",
        "-c",
        "echo last words; exit 7",
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
    )
    failed = await world.phase("Failed")
    ended = state(failed)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")
    assert ended["message"] == "last words\n"
    await world.run("sh", "-c", "kill -9 $$$$", name="killed")
    killed = await world.phase("Failed", "killed")
    assert state(killed)["state"]["terminated"]["exitCode"] == 137


async def test_a_program_that_is_not_there(world: World) -> None:
    await world.start()
    await world.run("/no/such/program")
    failed = await world.phase("Failed")
    ended = state(failed)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "no such file" in ended["message"]


async def test_init_containers_and_a_sidecar(world: World) -> None:
    await world.start()
    shell = {"image": "busybox"}
    share = {"volumeMounts": [{"name": "share", "mountPath": "/share"}]}
    await world.run(
        "sh",
        "-c",
        "cat /share/order && sleep 0.1",
        container=share,
        volumes=[{"name": "share", "emptyDir": {}}],
        initContainers=[
            {"name": "one", "command": ["sh", "-c", "echo 1 >> $0", "/share/order"]}
            | shell
            | share,
            {"name": "side", "command": ["sleep", "1000"], "restartPolicy": "Always"} | shell,
            {"name": "two", "command": ["sh", "-c", "echo 2 >> $0", "/share/order"]}
            | shell
            | share,
        ],
        containers=[
            {"name": "main", "command": ["cat", "/share/order"]} | shell | share,
        ],
    )
    done = await world.phase("Succeeded")
    assert world.log(done) == "1\n2"
    assert state(done, "side")["state"]["terminated"]["exitCode"] in (137, 143)


async def test_restarts_wait_longer_and_longer(world: World) -> None:
    await world.start()
    await world.run("sh", "-c", "exit 3", restartPolicy="Always")
    pod = await world.until(lambda pod: waiting_reason(pod) == "CrashLoopBackOff")
    assert state(pod)["restartCount"] >= 1
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 3
    (event,) = await world.events("pod", "BackOff")
    assert event["message"].startswith("Back-off restarting failed container main in pod pod_")


async def test_deletion_asks_first_and_kills_then(world: World) -> None:
    await world.start()
    polite = "trap 'echo bye; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    await world.run("sh", "-c", polite, name="polite", terminationGracePeriodSeconds=30)
    stubborn = "trap '' TERM; echo ready; while true; do sleep 0.05; done"
    await world.run("sh", "-c", stubborn, name="stubborn")
    pods = [await world.phase("Running", name) for name in ("polite", "stubborn")]
    for pod in pods:
        await until(lambda pod=pod: "ready" in world.log(pod))
    final: dict[str, int] = {}

    async def watch(name: str) -> None:
        pod = await world.until(lambda pod: "terminated" in state(pod).get("state", {}), name)
        final[name] = state(pod)["state"]["terminated"]["exitCode"]

    watching = [asyncio.create_task(watch(name)) for name in ("polite", "stubborn")]
    await world.delete("polite")
    await world.delete("stubborn")
    await world.gone("polite")
    await world.gone("stubborn")
    await asyncio.gather(*watching)
    assert final == {"polite": 0, "stubborn": 137}
    assert (await world.events("polite", "Killing"))[0]["message"] == "Stopping container main"
    await until(lambda: not list((world.folder / "pods").iterdir()))
    await until(lambda: not list((world.folder / "logs").iterdir()))


async def test_a_pod_removed_by_force_is_killed(world: World) -> None:
    agent = await world.start()
    await world.run("sleep", "1000", terminationGracePeriodSeconds=1000)
    pod = await world.phase("Running")
    shim = agent.access.usage()[0]
    assert shim.uid == pod["metadata"]["uid"]
    await world.delete(grace_seconds=0)
    await until(lambda: agent.access.usage() == [])
    await until(lambda: agent.access.pods() == [])


async def test_deadlines(world: World) -> None:
    await world.start()
    await world.run("sleep", "1000", activeDeadlineSeconds=1)
    failed = await world.phase("Failed")
    assert failed["status"]["reason"] == "DeadlineExceeded"


async def test_what_a_pod_needs_may_come_later(world: World) -> None:
    await world.start()
    await world.run(
        "sh",
        "-c",
        "cat /config/key; echo $VALUE",
        container={
            "volumeMounts": [{"name": "config", "mountPath": "/config"}],
            "command": ["cat", "/config/key"],
        },
        volumes=[{"name": "config", "configMap": {"name": "late"}}],
    )
    events = await world.events("pod", "FailedMount")
    words = 'MountVolume.SetUp failed for volume "config" : configmap "late" not found'
    assert events[0]["message"] == words
    assert waiting_reason(await world.until(waiting_reason)) == "ContainerCreating"
    late = {"metadata": {"name": "late"}, "data": {"key": "value"}}
    await world.client.create(CONFIGMAPS, late, namespace=world.namespace)
    assert world.log(await world.phase("Succeeded")) == "value"


async def test_variables_may_come_later_too(world: World) -> None:
    await world.start()
    reference = {"configMapKeyRef": {"name": "late", "key": "key"}}
    await world.run(
        "sh",
        "-c",
        "echo got $VALUE",
        container={"env": [{"name": "VALUE", "valueFrom": reference}]},
    )
    pod = await world.until(lambda pod: waiting_reason(pod) == "CreateContainerConfigError")
    assert state(pod)["state"]["waiting"]["message"] == 'configmap "late" not found'
    late = {"metadata": {"name": "late"}, "data": {"key": "value"}}
    await world.client.create(CONFIGMAPS, late, namespace=world.namespace)
    assert world.log(await world.phase("Succeeded")) == "got value"


async def test_files_follow_their_objects(world: World) -> None:
    await world.start()
    settings = {"metadata": {"name": "settings"}, "data": {"key": "old"}}
    await world.client.create(CONFIGMAPS, settings, namespace=world.namespace)
    await world.run(
        "sh",
        "-c",
        "until grep -q new $0; do sleep 0.05; done; echo seen",
        "/config/key",
        container={"volumeMounts": [{"name": "config", "mountPath": "/config"}]},
        volumes=[{"name": "config", "configMap": {"name": "settings"}}],
    )
    await world.phase("Running")
    await world.client.patch(
        CONFIGMAPS, "settings", namespace=world.namespace, patch={"data": {"key": "new"}}
    )
    assert world.log(await world.phase("Succeeded")) == "seen"


async def test_tokens_are_bound_to_the_pod(world: World) -> None:
    await world.start()
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    await world.run(
        "sh",
        "-c",
        "cat $0; echo; cat $1",
        f"{folder}/token",
        f"{folder}/namespace",
        automountServiceAccountToken=True,
    )
    token, namespace = world.log(await world.phase("Succeeded")).splitlines()
    assert token.count(".") == 2 and namespace == world.namespace


async def test_claims_lead_to_folders(world: World) -> None:
    await world.start()
    data = world.folder.parent / "claimed"
    data.mkdir()
    (data / "file").write_text("kept")
    await world.run(
        "cat",
        "/data/file",
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
    )
    (event, *_) = await world.events("pod", "FailedMount")
    words = f"Unable to attach or mount volumes: error processing PVC {world.namespace}/claim: "
    assert event["message"].startswith(f"{words}failed to fetch PVC from API server: ")
    claim = {
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": world.namespace,
            "storageClassName": "by-hand",
        },
    }
    made = await world.client.create(PERSISTENTVOLUMECLAIMS, claim, namespace=world.namespace)
    volume = {
        "metadata": {"name": world.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(data)},
            "claimRef": {
                "namespace": world.namespace,
                "name": "claim",
                "uid": made["metadata"]["uid"],
            },
            "storageClassName": "by-hand",
        },
    }
    await world.client.create(PERSISTENTVOLUMES, volume)
    await world.client.patch(
        PERSISTENTVOLUMECLAIMS,
        "claim",
        namespace=world.namespace,
        patch={"status": {"phase": "Bound"}},
        subresource="status",
    )
    assert world.log(await world.phase("Succeeded")) == "kept"
    assert (data / "file").exists()
    await world.client.delete(PERSISTENTVOLUMES, world.namespace)


async def test_an_image_that_is_not_mapped(world: World) -> None:
    await world.start()
    await world.run("true", container={"image": "registry.example/unknown:1"})
    pod = await world.until(lambda pod: waiting_reason(pod) == "ErrImageNeverPull")
    assert "image map" in state(pod)["state"]["waiting"]["message"]


async def test_probes_decide(world: World) -> None:
    await world.start()
    flag = world.folder.parent / "flag"
    await world.run(
        "sleep",
        "1000",
        restartPolicy="Always",
        container={
            "readinessProbe": {
                "exec": {"command": ["test", "-e", str(flag)]},
                "periodSeconds": 1,
                "failureThreshold": 1,
            },
            "livenessProbe": {
                "exec": {"command": ["test", "!", "-e", f"{flag}.dead"]},
                "periodSeconds": 1,
                "failureThreshold": 1,
            },
        },
    )
    pod = await world.phase("Running")
    assert not state(pod)["ready"]
    flag.touch()
    await world.until(lambda pod: state(pod)["ready"])
    dead = flag.with_name("flag.dead")
    dead.touch()
    (event, *_) = await world.events("pod", "Killing")
    assert event["message"] == "Container main failed liveness probe, will be restarted"
    dead.unlink()
    await world.until(lambda pod: state(pod)["restartCount"] == 1)
    assert (await world.events("pod", "Unhealthy"))[0]["type"] == "Warning"


async def test_hooks_run(world: World) -> None:
    await world.start()
    trace = world.folder.parent / "trace"
    hook = {"exec": {"command": ["sh", "-c", f"echo $0 >> {trace}"]}}

    def named(name: str) -> dict[str, object]:
        return {"exec": {"command": [*hook["exec"]["command"], name]}}

    await world.run(
        "sleep",
        "1000",
        container={"lifecycle": {"postStart": named("post"), "preStop": named("pre")}},
    )
    await world.until(lambda pod: state(pod).get("ready"))
    await world.delete()
    await world.gone()
    assert trace.read_text().split() == ["post", "pre"]


async def test_pods_that_do_not_fit_are_failed(world: World) -> None:
    await world.start()
    await world.run("true", name="big", container={"resources": {"requests": {"cpu": "10000"}}})
    big = await world.phase("Failed", "big")
    assert big["status"]["reason"] == "OutOfcpu"
    words = "Pod was rejected: Node didn't have enough resource: cpu, requested: 10000000, used: "
    assert big["status"]["message"].startswith(words)
    assert "containerStatuses" not in big["status"]
    await world.run("true", name="picky", nodeSelector={"no": "such"})
    picky = await world.phase("Failed", "picky")
    assert picky["status"]["reason"] == "NodeAffinity"


async def test_gpus_are_given_to_one_pod_each(world: World) -> None:
    await world.start(gpus=GPUS)
    one = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    show = ("sh", "-c", "echo see:$CUDA_VISIBLE_DEVICES; sleep 1000")
    await world.run(*show, name="a", container=one)
    await world.run(*show, name="b", container=one)
    await world.run(*show, name="none")
    seen = {}
    for name in ("a", "b", "none"):
        pod = await world.phase("Running", name)
        await until(lambda pod=pod: world.log(pod) != "")
        seen[name] = world.log(pod)
    assert {seen["a"], seen["b"]} == {"see:0", "see:1"} and seen["none"] == "see:"
    await world.run(*show, name="c", container=one)
    refused = await world.phase("Failed", "c")
    assert refused["status"]["reason"] == "OutOfnvidia.com/gpu"
    await world.delete("a")
    await world.gone("a")
    await world.run(*show, name="d", container=one)
    pod = await world.phase("Running", "d")
    await until(lambda: world.log(pod) != "")
    assert world.log(pod) == seen["a"]


async def test_the_node_looks_like_a_node(world: World) -> None:
    await world.start(
        gpus=GPUS, labels={"rack": "7"}, taints=[{"key": "k", "effect": "NoSchedule"}]
    )
    node = await world.client.get(NODES, world.node)
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/os"] == "linux" and labels["rack"] == "7"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-Test"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert {"key": "k", "effect": "NoSchedule"} in node["spec"]["taints"]
    conditions = {c["type"]: (c["status"], c["reason"]) for c in node["status"]["conditions"]}
    assert conditions["Ready"] == ("True", "KubeletReady")
    assert conditions["DiskPressure"] == ("False", "KubeletHasNoDiskPressure")


async def test_a_node_that_was_deleted_comes_back(world: World) -> None:
    await world.start()
    before = await world.client.get(NODES, world.node)
    await world.client.delete(NODES, world.node)

    async def back() -> bool:
        listed = await world.client.list_all(NODES, field_selector=f"metadata.name={world.node}")
        uids = [node["metadata"]["uid"] for node in listed["items"]]
        return bool(uids) and uids != [before["metadata"]["uid"]]

    async with asyncio.timeout(30):
        while not await back():  # noqa: ASYNC110 (nothing to wait for)
            await asyncio.sleep(0.05)
    await world.run("true")
    await world.phase("Succeeded")


async def test_many_pods_at_once(world: World) -> None:
    await world.start()
    names = [await world.run("true", name=f"p{i}") for i in range(30)]
    for name in names:
        await world.phase("Succeeded", name)
    await world.client.delete_collection(PODS, world.namespace)
    for name in names:
        await world.gone(name)
