// Tests async_io and pin_memory from C++ through the loaded op.
#include "anyaccel/ops/async_io.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "anyaccel/error.h"
#include "test_paths.h"

namespace anyaccel::ops {
namespace {

// Fails if a method in the header does not match the op's method, or arguments are swapped.
TEST(AsyncIOHandle, EveryMethod) {
  const std::string path = std::string(ANYACCEL_BUILD_DIR) + "/async_io_api_test.data";
  AsyncIOHandle handle(4096, 8, true, true, 2);
  EXPECT_EQ(handle.get_block_size(), 4096);
  EXPECT_EQ(handle.get_queue_depth(), 8);
  EXPECT_TRUE(handle.get_single_submit());
  EXPECT_TRUE(handle.get_overlap_events());
  EXPECT_EQ(handle.get_intra_op_parallelism(), 2);
  EXPECT_EQ(handle.get_alignment(), 1024);
  EXPECT_FALSE(handle.get_queue_reason().empty());
  const auto x = at::arange(20000);
  EXPECT_EQ(handle.write(x, path, true), 0);
  auto y = at::zeros_like(x);
  EXPECT_EQ(handle.read(y, path, true), 0);
  EXPECT_TRUE(at::equal(x, y));
  EXPECT_EQ(handle.async_pwrite(x, path, 8), 0);
  EXPECT_EQ(handle.pwrite(x, path, false, false, 8 + 160000), 2);
  EXPECT_EQ(handle.async_pread(y, path, 8), 0);
  EXPECT_EQ(handle.wait(), 1);
  EXPECT_TRUE(at::equal(x, y));
  auto request = handle.start_read(y.zero_(), path, 8 + 160000);
  request.wait();
  EXPECT_TRUE(request.done());
  EXPECT_TRUE(at::equal(x, y));
  handle.cancel();
  try {
    handle.sync_pread(y, path + ".none");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
  std::remove(path.c_str());
}

// Fails if a pinned tensor is not recognized, or the pool's statistics are wrong.
TEST(PinHandle, EveryMethod) {
  PinHandle pin;
  auto locked = pin.new_cpu_locked_tensor(1000, at::zeros({0}, at::kDouble));
  EXPECT_EQ(locked.scalar_type(), at::kDouble);
  EXPECT_TRUE(pin.is_pinned(locked.narrow(0, 3, 4)));
  EXPECT_FALSE(pin.is_pinned(at::zeros({4})));
  EXPECT_EQ(pin.stats().used_bytes, 8192);
  EXPECT_TRUE(pin.free_cpu_locked_tensor(locked));
  EXPECT_FALSE(
      pin.free_cpu_locked_tensor_by_ptr(reinterpret_cast<std::uintptr_t>(locked.data_ptr())));
  locked = at::Tensor();
  pin.trim();
  EXPECT_EQ(pin.stats().held_bytes, 0);
  EXPECT_THROW(pin.set_limit(-1), Error);
}

}  // namespace
}  // namespace anyaccel::ops
