// all_reduce_job [ROUNDS]: the program that each rank runs in tests of the launcher.
//
// Finds the other ranks through the launcher's variables, all-reduces tensors on the accelerator
// and on the host, and checks every element. The sizes range from one element to many chunks of
// shared memory. Exits with 1 and a message if a sum is wrong; otherwise rank 0 prints a line.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"

namespace {

using anyaccel::comm::ProcessGroup;
using anyaccel::comm::ReduceOp;

std::int64_t wrong = 0;

void check(const at::Tensor& got, const at::Tensor& want, const char* what, int rank) {
  const auto differ =
      got.to(at::kCPU, at::kDouble).ne(want.to(at::kDouble)).sum().item<std::int64_t>();
  if (differ == 0) return;
  ++wrong;
  std::cerr << "rank " << rank << ": " << what << " of " << got.numel() << " elements on "
            << got.device() << " as " << got.scalar_type() << ": " << differ << " are wrong\n";
}

/// Element i of rank r is (i modulo 64) + r. These integers are small, so sums are exact in every
/// dtype.
void check_size(ProcessGroup& group, std::int64_t count, const at::TensorOptions& here) {
  const int n = group.size();
  const auto base = at::arange(count, at::TensorOptions().dtype(at::kDouble)).remainder(64);
  const auto mine = [&] {
    return base.add(group.rank()).to(here.device(), c10::typeMetaToScalarType(here.dtype()));
  };
  auto sum = mine();
  group.all_reduce(sum);
  check(sum, base.mul(n).add(n * (n - 1) / 2.0), "the sum", group.rank());
  auto most = mine();
  group.all_reduce(most, ReduceOp::max);
  check(most, base.add(n - 1), "the maximum", group.rank());
  auto given = mine();
  group.broadcast(given, n - 1);
  check(given, base.add(n - 1), "the broadcast", group.rank());
}

}  // namespace

int main(int argc, char** argv) try {
  const long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1;
  auto group = anyaccel::comm::init_process_group();
  auto& accelerator = anyaccel::get_accelerator();
  int checks = 0;
  for (long round = 0; round < rounds; ++round)
    for (const auto device : {accelerator.torch_device(), c10::Device(c10::kCPU)})
      for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong})
        for (const std::int64_t count : {1, 1000, 32768, 100003, 1500007}) {
          // bfloat16 represents integers up to 256 exactly. Larger sums, with many ranks, are not
          // checked.
          if (dtype == at::kBFloat16 && 64 * group.size() + group.size() * group.size() / 2 > 256)
            continue;
          check_size(group, count, at::TensorOptions().dtype(dtype).device(device));
          checks += 3;
        }
  // Exchange the results, so that an error on one rank makes all ranks fail.
  auto all = at::full({1}, static_cast<double>(wrong), at::TensorOptions().dtype(at::kDouble));
  group.all_reduce(all);
  const auto memory = group.shared_memory_reason();
  if (group.rank() == 0 && all.item<double>() == 0)
    std::cout << "all_reduce ok: " << group.size() << " ranks on " << accelerator.name() << ", "
              << checks << " correct results, shared memory: " << (memory.empty() ? "yes" : memory)
              << std::endl;
  group.barrier();
  return all.item<double>() == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
