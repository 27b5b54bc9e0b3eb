// Base class for tests whose ranks are threads. The parameters are the backend, the number of
// ranks, and whether to use shared memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <tuple>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/registry.h"
#include "unit/comm/ranks.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::comm {

class RanksOnBackends : public testing::TestWithParam<std::tuple<const char*, int, bool>> {
 protected:
  void SetUp() override {
    const auto names = registered_backends();
    if (std::find(names.begin(), names.end(), std::get<0>(GetParam())) == names.end())
      GTEST_SKIP() << "this build has no " << std::get<0>(GetParam());
    set_accelerator(std::get<0>(GetParam()));
  }

  test::ScopedEnv no_ccl_{"ANYACCEL_CCL",
                          "off"};  // oneCCL requires one process per rank; these ranks are threads

  /// Runs `body(group, tensor options of the accelerator)` on each rank.
  template <typename Body>
  void ranks(const Body& body) {
    const auto [name, size, memory] = GetParam();
    const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
    test::in_threads(size, [&, size = size, memory = memory](int rank) {
      auto& accelerator = get_accelerator();
      accelerator.set_device(rank % accelerator.device_count());
      auto group = init_process_group({.store = store,
                                       .rank = rank,
                                       .world_size = size,
                                       .timeout = std::chrono::seconds(60),
                                       .shared_memory = memory});
      body(group, at::TensorOptions().dtype(at::kFloat).device(accelerator.torch_device()));
    });
  }
};

}  // namespace anyaccel::comm
