// A multi-process job that sums one number per rank. Start it with a launcher, for example
//   torchrun --no-python --nproc-per-node=2 build/all_reduce
#include <ATen/ops/full.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/comm.h>

#include <iostream>

int main() try {
  auto group = anyaccel::comm::init_process_group();
  auto& accelerator = anyaccel::get_accelerator();
  at::Tensor x = at::full({1000}, group.rank() + 1.0, accelerator.torch_device());
  group.all_reduce(x);
  const auto sum = x[0].item<double>();
  if (group.rank() == 0)
    std::cout << group.size() << " ranks on " << accelerator.name() << ": sum " << sum << '\n'
              << std::flush;
  group.barrier();
} catch (const anyaccel::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
