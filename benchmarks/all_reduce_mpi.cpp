// Intel MPI's program for all_reduce.bench.py. all_reduce.py compiles it if Intel MPI is installed.
#include <mpi.h>

#include "all_reduce.h"

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  all_reduce::measure(
      rank, size,
      [](void* data, std::size_t numbers, bool bf16) {
        if (MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(numbers),
                          bf16 ? MPIX_BFLOAT16 : MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != 0)
          std::exit(1);
      },
      [] { MPI_Barrier(MPI_COMM_WORLD); });
  MPI_Finalize();
}
