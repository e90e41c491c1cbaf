"""Times MPI_Allreduce of an MPI library on floats, called through ctypes: one rank of it.

usage: mpirun -n RANKS python3 peers_mpi_allreduce.py LIBRARY ABI MEBIBYTES ROUNDS
Rank 0 prints a line of JSON.
"""

import ctypes
import json
import sys
import time

path, abi, mebibytes, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
mpi = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)

if abi == "Open MPI":
    def handle(name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))

    world, float32, add = handle("ompi_mpi_comm_world"), handle("ompi_mpi_float"), handle("ompi_mpi_op_sum")
elif abi == "MPICH":
    world, float32, add = (ctypes.c_int(number) for number in (0x44000000, 0x4C00040A, 0x58000003))
else:
    world, float32, add = (ctypes.c_void_p(number) for number in (0x101, 0x210, 0x21))


def call(name, *arguments):
    code = getattr(mpi, name)(*arguments)
    if code != 0:
        sys.exit(f"{name} has failed with code {code}")


call("MPI_Init", None, None)
rank = ctypes.c_int()
call("MPI_Comm_rank", world, ctypes.byref(rank))
count = mebibytes << 18
own, total = (ctypes.c_float * count)(*[1.0] * count), (ctypes.c_float * count)()
seconds = []
for _ in range(rounds + 1):
    call("MPI_Barrier", world)
    begun = time.perf_counter()
    call("MPI_Allreduce", own, total, ctypes.c_int(count), float32, add, world)
    seconds.append(time.perf_counter() - begun)
if rank.value == 0:
    print(json.dumps({"seconds": seconds[1:]}))
call("MPI_Finalize")
