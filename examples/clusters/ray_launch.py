"""Starts ranks on the nodes of a Ray cluster, and starts them again until the run is complete.

    python ray_launch.py --ranks 8 --cpus 16 -- isentrope train recipes/my.toml --resume

Ray finds the nodes and keeps their cores for the run (a placement group, one bundle per rank); mpirun starts the ranks there, with
Ray in the place of ssh. Every node needs isentrope and mpirun (Open MPI or MPICH) in its PATH, and the present directory, which
run.out, the model and the data are looked for from. Without a cluster (RAY_ADDRESS), Ray starts on this machine alone.

Ctrl-C, SIGTERM or SIGUSR1: the step is finished and saved, and nothing is started again.
"""

import argparse
import collections
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

# mpirun calls this as it would call ssh: [options] HOST WORDS OF A COMMAND.
AGENT = """#!{python}
import ray, sys
words = sys.argv[1:]
while words[0].startswith("-"):
    words.pop(0)
ray.init(address="{address}", namespace="{name}", log_to_driver=False, logging_level="error")
sys.exit(ray.get(ray.get_actor(words[0]).run.remote(" ".join(words[1:]))))
"""


@ray.remote(num_cpus=0, max_concurrency=4)
class Node:
    def run(self, command):
        return subprocess.run(command, shell=True, stdin=subprocess.DEVNULL).returncode

    def mpirun(self, hosts, ranks, command, directory, name):
        """Yields what mpirun says, and then its exit status."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as agent:
            address = ray.get_runtime_context().gcs_address
            agent.write(AGENT.format(python=sys.executable, address=address, name=name))
        os.chmod(agent.name, 0o700)
        if b"Open MPI" in subprocess.check_output(["mpirun", "--version"]):
            # Bound to one core, a rank would have one thread.
            options = ["--mca", "plm_rsh_agent", agent.name, "--bind-to", "none", "--host", hosts]
        else:
            options = ["-launcher", "ssh", "-launcher-exec", agent.name, "-hosts", hosts]
        whole = ["mpirun", *options, "-n", str(ranks), *command]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(whole, cwd=directory, text=True, **output)
        for line in self.process.stdout:
            yield line
        os.remove(agent.name)
        yield self.process.wait()

    def save_and_end(self):
        self.process.send_signal(signal.SIGUSR1)  # mpirun hands it on to the ranks


def attempt(ranks, cpus, strategy, command, asked):
    """The exit status of one start of all ranks."""
    group = placement_group([{"CPU": cpus}] * ranks, strategy=strategy)
    try:
        while not group.wait(1):
            if asked.is_set():
                return 130
        places = placement_group_table(group)["bundles_to_node_id"]
        address = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        slots = collections.Counter(address[node] for node in places.values())
        nodes = {}
        for bundle, node in sorted(places.items()):
            if address[node] not in nodes:
                place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
                options = {"name": address[node], "namespace": group.id.hex(), "scheduling_strategy": place}
                nodes[address[node]] = Node.options(**options).remote()
        first = next(iter(nodes.values()))
        hosts = ",".join(f"{host}:{slots[host]}" for host in nodes)
        said = first.mpirun.remote(hosts, ranks, command, os.getcwd(), group.id.hex())
        threading.Thread(target=lambda: asked.wait() and first.save_and_end.remote(), daemon=True).start()
        for line in map(ray.get, said):
            if isinstance(line, int):
                return line
            print(line, end="", flush=True)
    except ray.exceptions.RayError as error:  # a node is gone
        print(error, file=sys.stderr)
    finally:
        remove_placement_group(group)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True, help="update.shards of the recipe, or that halved any number of times")
    parser.add_argument("--cpus", type=int, default=1, help="cores of a rank")
    parser.add_argument("--strategy", default="PACK", help="PACK: on few nodes; SPREAD: on many; STRICT_SPREAD: one rank a node")
    parser.add_argument("--soon", type=float, default=300, help="a failure within so many seconds is not tried again")
    parser.add_argument("command", nargs="+", help="after --")
    arguments = parser.parse_args()

    # What is set here is set for the ranks.
    ours = {key: value for key, value in os.environ.items() if key.startswith(("ISENTROPE_", "HF_", "OMPI_", "MPI"))}
    ray.init(runtime_env={"env_vars": {"ISENTROPE_THREADS": str(arguments.cpus), **ours}})
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: asked.set())
    while True:
        start = time.monotonic()
        status = attempt(arguments.ranks, arguments.cpus, arguments.strategy, arguments.command, asked)
        took = time.monotonic() - start
        print(f"ended with status {status} after {took:.0f} s", file=sys.stderr)
        # Complete; of no use to start again; stopped and saved.
        if status in (0, 2, 130) or asked.is_set() or took < arguments.soon:
            sys.exit(status)


if __name__ == "__main__":
    main()
