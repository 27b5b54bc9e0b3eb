// Tests process groups that are passed by address, as in ops that all-reduce internally.
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "anyaccel/ops/call.h"
#include "anyaccel/registry.h"
#include "unit/support/expect_error.h"

namespace anyaccel::ops {
namespace {

using ReduceAt = void(void*, const void*, void*, std::int64_t, std::int8_t, int);
using SumAt = void(void*, float*, std::int64_t, void (*)(void*), void*);

// Fails if a destroyed group can be used, or is mistaken for a new group with the same name.
TEST(ShmCommPointer, ClosedGroupIsAnError) {
  set_accelerator("cpu");
  constexpr const char* kName = "shm-comm-pointer-test";
  const std::string builder = "ShareMemCommBuilder";
  const auto init = load_op<std::string(const std::string&, std::int64_t, std::int64_t, double)>(
      builder, "shm_comm_init");
  const auto close = load_op<void(const std::string&)>(builder, "shm_comm_close");
  const auto pointers =
      load_op<std::vector<std::int64_t>(const std::string&)>(builder, "shm_comm_pointer_call");
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
  c10d::register_process_group(kName, group);
  init.call(kName, 0, 1, 1.0);
  const auto found = pointers.call(kName);
  void* const at = reinterpret_cast<void*>(found[0]);
  auto* const reduce = reinterpret_cast<ReduceAt*>(found[1]);
  auto* const sum = reinterpret_cast<SumAt*>(found[2]);
  float value = 3;
  reduce(at, &value, &value, 1, static_cast<std::int8_t>(c10::kFloat), 0);
  sum(
      at, &value, 1, [](void*) {}, nullptr);
  EXPECT_EQ(value, 3);
  close.call(kName);
  EXPECT_ERROR(reduce(at, &value, &value, 1, static_cast<std::int8_t>(c10::kFloat), 0),
               invalid_state, kName);
  init.call(kName, 0, 1, 1.0);
  EXPECT_ERROR(sum(
                   at, &value, 1, [](void*) {}, nullptr),
               invalid_state, kName);
  close.call(kName);
  c10d::unregister_process_group(kName);
}

}  // namespace
}  // namespace anyaccel::ops
