"""Compares our exact sum of gradients (`World::sum` and `World::share`) with MPI_Allreduce of the same library, and prints a
Markdown table: milliseconds for a gradient of so many MiB, and bytes per second that each rank sends.

Builds our side for release. The opponent is the library's own function, called from Python: it does not promise the same bits
for another number of ranks. Both sides take turns. README.md says what is measured.
"""

import argparse
import shutil
import statistics
import subprocess
import sys

from processes import HERE, alternate, build, measure, table, warn_if_busy


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found = [name for name in ("mpirun.openmpi", "mpirun.mpich") if shutil.which(name)] or ["mpirun"]
    parser.add_argument("--mpirun", nargs="+", default=found, help="launchers [default: those of Debian's packages]")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--mebibytes", type=int, default=100, help="of the gradient")
    parser.add_argument("--repeats", type=int, default=5, help="sums in a process")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    args = parser.parse_args()
    if min(args.rounds, args.repeats, args.mebibytes, *args.ranks) < 1 or 1 in args.ranks:
        parser.error("--rounds, --repeats and --mebibytes must be positive, --ranks more than one")
    return args


def job(mpirun, ranks, *command):
    """The command of a job. More ranks than processors are allowed, and root, which containers are."""
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=True).stdout
    open_mpi = "Open MPI" in version or "OpenRTE" in version
    options = ["--oversubscribe", "--bind-to", "none"] if open_mpi else []
    return [mpirun, *options, "-n", ranks, *command]


def compare(args, program, mpirun, ranks):
    """Version of the library, and seconds of the fastest sum of each side."""
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ours_command = job(mpirun, ranks, program, args.mebibytes, args.repeats)
    library, _ = measure(ours_command, environment)
    peer = [sys.executable, HERE / "peers_mpi_allreduce.py", library["path"], library["abi"]]
    theirs_command = job(mpirun, ranks, *peer, args.mebibytes, args.repeats)
    sides = (lambda command=command: measure(command, environment)[0] for command in (ours_command, theirs_command))
    ours, theirs = alternate(args.rounds, *sides)

    def typical(results):
        return statistics.median(second for result in results for second in result["seconds"])

    return library["version"], typical(ours), typical(theirs)


def main():
    args = arguments()
    program = build("isentrope-ranks", "example", "sum_speed")
    warn_if_busy()
    rows = []
    for mpirun in args.mpirun:
        for ranks in args.ranks:
            version, ours, theirs = compare(args, program, mpirun, ranks)
            sent = 2 * args.mebibytes * (ranks - 1) / ranks / 1024
            figures = [f"{1000 * ours:.0f}", f"{1000 * theirs:.0f}", f"{theirs / ours:.2f}", f"{sent / ours:.2f}"]
            rows.append([version, str(ranks), *figures])
    print(table(["library", "ranks", "exact, ms", "MPI_Allreduce, ms", "ratio", "GiB/s sent by each"], rows))


if __name__ == "__main__":
    main()
