// Tests how the op deepspeed_shm_comm looks up process groups by name, without including c10d's
// class definition.
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "ops/shm_comm/process_group.h"

namespace anyaccel::ops::shm {
namespace {

// Fails if the memory layout of process groups has changed, or looking up a group changes its
// reference count.
TEST(ShmCommName, ResolvesToTheProcessGroup) {
  constexpr const char* kName = "shm-comm-name-test";
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
  c10d::register_process_group(kName, group);
  const auto before = group.use_count();
  EXPECT_EQ(resolve_process_group(kName).get(),
            static_cast<const c10::intrusive_ptr_target*>(group.get()));
  EXPECT_EQ(group.use_count(), before);
  c10d::unregister_process_group(kName);
  EXPECT_THROW(resolve_process_group(kName), c10::Error);
}

}  // namespace
}  // namespace anyaccel::ops::shm
