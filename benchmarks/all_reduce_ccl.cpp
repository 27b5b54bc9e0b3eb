// oneCCL's program for all_reduce.bench.py. all_reduce.py compiles it if oneCCL is installed.
// usage: ADDRESS_FILE (started by mpiexec) | ADDRESS_FILE RANK SIZE
#include <mpi.h>
#include <unistd.h>

#include <fstream>
#include <oneapi/ccl.hpp>

#include "all_reduce.h"

int main(int words_count, char** words) {
  int rank = words_count > 3 ? std::atoi(words[2]) : 0;
  int size = words_count > 3 ? std::atoi(words[3]) : 0;
  if (words_count <= 3) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  ccl::init();
  const std::string path = words[1];
  ccl::shared_ptr_class<ccl::kvs> kvs;
  ccl::kvs::address_type address;
  if (rank == 0) {
    kvs = ccl::create_main_kvs();
    address = kvs->get_address();
    std::ofstream(path + ".new")
        .write(address.data(), static_cast<std::streamsize>(address.size()));
    std::rename((path + ".new").c_str(), path.c_str());
  } else {
    while (::access(path.c_str(), R_OK) != 0) ::usleep(1000);
    std::ifstream(path).read(address.data(), static_cast<std::streamsize>(address.size()));
    kvs = ccl::create_kvs(address);
  }
  auto comm = ccl::create_communicator(size, rank, kvs);
  all_reduce::measure(
      rank, size,
      [&](void* data, std::size_t numbers, bool bf16) {
        ccl::allreduce(data, data, numbers, bf16 ? ccl::datatype::bfloat16 : ccl::datatype::float32,
                       ccl::reduction::sum, comm)
            .wait();
      },
      [&] { ccl::barrier(comm).wait(); });
  std::fflush(nullptr);
  ccl::barrier(comm).wait();
  std::_Exit(0);
}
