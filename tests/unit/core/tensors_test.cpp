#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>

#include <cstdlib>

#include "anyaccel/accelerator.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

using test::mock_traits;
using test::MockBackend;

class TensorsTest : public testing::Test {
 protected:
  Accelerator accelerator_{std::make_shared<MockBackend>(mock_traits("mock"), 1)};
};

// Fails if a dtype is wrong, or 64-bit integers lose precision.
TEST_F(TensorsTest, ValuesAndTypes) {
  EXPECT_EQ(accelerator_.BFloat16Tensor({1.5}).scalar_type(), at::kBFloat16);
  EXPECT_EQ(accelerator_.HalfTensor({1.5}).scalar_type(), at::kHalf);
  EXPECT_EQ(accelerator_.FloatTensor({1.5, 2.5}).sizes(), c10::IntArrayRef({2}));
  EXPECT_EQ(accelerator_.DoubleTensor({0.1})[0].item<double>(), 0.1);
  EXPECT_EQ(accelerator_.ByteTensor({255})[0].item<std::uint8_t>(), 255);
  EXPECT_EQ(accelerator_.IntTensor({-7})[0].item<std::int32_t>(), -7);
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(accelerator_.LongTensor({big})[0].item<std::int64_t>(), big);
  EXPECT_EQ(accelerator_.LongTensor({}).numel(), 0);
}

// Fails if the values are not copied. The tensor must outlive them.
TEST_F(TensorsTest, CopiesItsValues) {
  std::vector<double> values{1, 2};
  const auto tensor = accelerator_.DoubleTensor(values);
  values[0] = 9;
  EXPECT_EQ(tensor[0].item<double>(), 1);
}

// Fails if double tensors can be created on a device without fp64.
TEST_F(TensorsTest, NoDoublesWithoutFp64) {
  auto traits = mock_traits("single");
  traits.fp64 = false;
  const Accelerator accelerator(std::make_shared<MockBackend>(traits));
  EXPECT_FALSE(accelerator.is_fp64_supported());
  EXPECT_ERROR(accelerator.DoubleTensor({1.0}), unsupported, "double");
}

// Fails if pinning copies a tensor although the device needs no pinned memory, or changes the
// values or the shape.
TEST_F(TensorsTest, PinningOnTheHost) {
  const auto tensor = at::arange(6).reshape({2, 3});
  EXPECT_EQ(accelerator_.pin_memory(tensor).data_ptr(), tensor.data_ptr());
  EXPECT_TRUE(accelerator_.pin_memory(tensor.t()).equal(tensor.t()));
  EXPECT_TRUE(accelerator_.pin_memory(tensor.t()).is_contiguous());
  EXPECT_EQ(accelerator_.pin_memory(tensor, false, false).sizes(), c10::IntArrayRef({6}));
  EXPECT_EQ(accelerator_.pin_empty(tensor, {4, 5}).sizes(), c10::IntArrayRef({4, 5}));
  EXPECT_EQ(accelerator_.pin_empty_like(tensor).sizes(), tensor.sizes());
  EXPECT_FALSE(accelerator_.is_pinned(tensor));
  EXPECT_EQ(accelerator_.unpin_memory(tensor).data_ptr(), tensor.data_ptr());
  EXPECT_ERROR(accelerator_.pin_empty(tensor, {-1}), invalid_argument, "negative");
  EXPECT_ERROR(accelerator_.pin_memory(at::Tensor()), invalid_argument, "undefined");
  EXPECT_ERROR(accelerator_.pin_memory(at::empty({2}, at::TensorOptions().device(at::kMeta))),
               invalid_argument, "meta");
  EXPECT_ERROR(accelerator_.register_host_memory(nullptr, 4), invalid_argument, "null");
}

/// A backend that pins memory with an allocator that torch does not know.
struct PinningBackend : MockBackend {
  using MockBackend::MockBackend;
  static void release(void* data) { std::free(data); }
  struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
      auto* const data = std::malloc(bytes);
      return {data, data, &release, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t count) const override {
      default_copy_data(to, from, count);
    }
  };
  c10::Allocator* host_allocator() const override {
    static Allocator allocator;
    return &allocator;
  }
};

// Fails if memory from the backend's allocator does not count as pinned, or other memory does.
TEST(PinningTest, AllocatorOfTheBackend) {
  Accelerator accelerator(std::make_shared<PinningBackend>(mock_traits("pinning"), 1));
  const auto plain = at::arange(6);
  const auto pinned = accelerator.pin_memory(plain);
  EXPECT_TRUE(pinned.equal(plain));
  EXPECT_TRUE(accelerator.is_pinned(pinned));
  EXPECT_TRUE(accelerator.is_pinned(pinned.slice(0, 2)));
  EXPECT_FALSE(accelerator.is_pinned(plain));
  EXPECT_EQ(accelerator.pin_memory(pinned).data_ptr(), pinned.data_ptr());
  EXPECT_FALSE(accelerator.is_pinned(accelerator.unpin_memory(pinned)));
}

// Fails if restoring a state does not repeat the random numbers, or an invalid state is accepted.
TEST_F(TensorsTest, RandomStates) {
  accelerator_.manual_seed(7);
  EXPECT_EQ(accelerator_.initial_seed(), 7U);
  const auto state = accelerator_.get_rng_state();
  const auto first = at::rand({8});
  accelerator_.set_rng_state(state);
  EXPECT_TRUE(first.equal(at::rand({8})));
  {
    const RngGuard guard(accelerator_);
    at::rand({100});
  }
  const auto after = at::rand({8});
  accelerator_.set_rng_state(state);
  at::rand({8});
  EXPECT_TRUE(after.equal(at::rand({8})));
  EXPECT_ERROR(accelerator_.set_rng_state(at::rand({3})), invalid_argument, "uint8");
  EXPECT_ERROR(accelerator_.set_rng_state(at::empty({3}, at::kByte)), invalid_argument,
               "does not match this generator");
}

// Fails if Random does not seed the accelerator, or does not return its seed.
TEST_F(TensorsTest, RandomFacade) {
  auto random = accelerator_.random();
  random.manual_seed(11);
  EXPECT_EQ(random.initial_seed(), 11U);
  EXPECT_EQ(accelerator_.initial_seed(), 11U);
  const auto seed = random.seed();
  EXPECT_EQ(random.initial_seed(), seed);
  EXPECT_NE(random.seed(), seed);
}

}  // namespace
}  // namespace anyaccel
