"""Trains on the nodes of a Ray cluster, and starts again from the last checkpoint until the run is complete.

    python ray_launch.py RANKS CORES recipes/my.toml [--set update.shards=8 ...]

Ray keeps CORES cores for each rank, and a GPU if the cluster has as many GPUs as ranks: then keep whole nodes for the job, whose
ranks take the GPUs of a node from the first on. Open MPI's mpirun starts the ranks, with Ray in the place of ssh.
RANKS is update.shards, or that halved any number of times. Start this on a node of the cluster. On every node isentrope and
mpirun must be in the PATH of Ray, and the present directory must be the same: run.out, model and data are looked for from there.
Ctrl-C, SIGTERM, SIGUSR1: the step is finished and saved, and nothing starts again. A second one ends at once.

Run with Ray 2.60 and Open MPI 4.1 and 5.0, on two network namespaces of one machine: README.md.
"""

import collections
import os
import signal
import subprocess
import sys
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

if len(sys.argv) < 4:
    sys.exit(__doc__)
if sys.argv[1] == "--agent":  # mpirun calls this file as it would call ssh: HOST WORDS OF A COMMAND
    ray.init(log_to_driver=False, logging_level="error")
    shell = ray.remote(num_cpus=0, max_retries=0, resources={f"node:{sys.argv[2]}": 0.001})(subprocess.call)
    # Versions of Ray hide the GPUs from a task that asks for none.
    command = "unset CUDA_VISIBLE_DEVICES; " + " ".join(sys.argv[3:])
    sys.exit(ray.get(shell.remote(command, shell=True, stdin=subprocess.DEVNULL)))


def save(*_):
    if run:
        run.send_signal(signal.SIGTERM if asked else signal.SIGUSR1)  # mpirun hands SIGUSR1 on to the ranks
    asked.append(True)


ranks, cores, *arguments = sys.argv[1:]
run, asked, status = None, [], 130
ray.init()
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # for the agent
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, save)
agent = ["--mca", "plm_rsh_agent", f"{sys.executable} {os.path.abspath(__file__)} --agent"]
train = ["isentrope", "train", "--resume", "--threads", cores, *arguments]
of_rank = {"CPU": int(cores), "GPU": int(ray.cluster_resources().get("GPU", 0) >= int(ranks))}
while not asked:
    group = placement_group([of_rank] * int(ranks))
    while not asked and not group.wait(1):
        pass
    if asked:
        break
    address = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    slots = collections.Counter(address[node] for node in placement_group_table(group)["bundles_to_node_id"].values())
    hosts = ",".join(f"{host}:{n}" for host, n in slots.items())
    start = time.monotonic()
    command = ["mpirun", *agent, "--host", hosts, "-n", ranks, "--bind-to", "none", *train]
    run = subprocess.Popen(command, start_new_session=True)  # or Ctrl-C would reach it, too
    status = run.wait()
    remove_placement_group(group)
    took = time.monotonic() - start
    print(f"ended with status {status} after {took:.0f} s", file=sys.stderr)
    # 0: complete; 2: another start is of no use; 130: saved, after a signal. A failure within minutes would go round for ever.
    if status in (0, 2, 130) or took < float(os.environ.get("SOON", "300")):
        break
    time.sleep(10)
sys.exit(status)
