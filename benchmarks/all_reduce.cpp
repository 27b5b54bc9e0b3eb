// AnyAccel's program for all_reduce.bench.py. It all-reduces buffers that are passed as raw
// pointers, without tensors.
// usage: bench_all_reduce RANK SIZE STORE_FILE
#include "all_reduce.h"

#include <anyaccel/comm.h>
#include <anyaccel/ops/shm_comm.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

int main(int count, char** words) {
  if (count != 4) return 2;
  const int rank = std::atoi(words[1]);
  const int size = std::atoi(words[2]);
  const auto group = anyaccel::comm::make_process_group(
      "staged", c10::make_intrusive<c10d::FileStore>(words[3], size), {.rank = rank, .size = size});
  anyaccel::ops::ShareMemComm comm(group);
  if (!comm.reason().empty()) {
    std::fprintf(stderr, "%s\n", comm.reason().c_str());
    return 1;
  }
  all_reduce::measure(
      rank, size,
      [&](void* data, std::size_t numbers, bool bf16) {
        comm.all_reduce(data, data, static_cast<std::int64_t>(numbers),
                        bf16 ? c10::ScalarType::BFloat16 : c10::ScalarType::Float);
      },
      [&] { comm.barrier(); });
  comm.barrier();
  std::fflush(nullptr);
  std::_Exit(0);
}
