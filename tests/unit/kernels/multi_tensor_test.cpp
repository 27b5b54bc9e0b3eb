// Runs the CUDA kernels of FusedAdam and FusedLion on the host, with the same chunks, blocks and
// arithmetic as on the device.
#include "kernels/optimizer/multi_tensor.h"

#include "unit/kernels/device_elements.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

/// The arrays of one tensor in a list. All tensors of a list have the same types.
struct Tensor {
  Array p, g, m, v;
};

struct Types {
  Element p, g, s;
};

std::vector<Tensor> random_list(Random& random, const std::vector<std::int64_t>& sizes,
                                const Types& types) {
  std::vector<Tensor> out;
  for (const std::int64_t size : sizes) {
    Tensor made{Array(types.p, size, 0), Array(types.g, size, 0), Array(types.s, size, 0),
                Array(types.s, size, 0)};
    fill(made.p, random, false, false);
    fill(made.g, random, false, true);
    fill(made.m, random, false, false);
    fill(made.v, random, true, false);
    out.push_back(std::move(made));
  }
  return out;
}

constexpr Types all_types[] = {
    {Element::f32, Element::f32, Element::f32},    {Element::bf16, Element::f32, Element::f32},
    {Element::bf16, Element::bf16, Element::f32},  {Element::bf16, Element::f32, Element::bf16},
    {Element::bf16, Element::bf16, Element::bf16}, {Element::fp16, Element::fp16, Element::f32},
    {Element::fp16, Element::fp16, Element::fp16}};

/// Returns sizes that need more tensors and chunks than fit in one launch, including 0 and sizes
/// near the chunk size.
std::vector<std::int64_t> random_sizes(Random& random, std::int64_t chunk) {
  std::vector<std::int64_t> out{chunk * 700 + 3, 0, 1, chunk - 1, chunk, chunk + 1};
  for (int i = 0; i < 100; ++i) out.push_back(random.whole(0, 3 * chunk));
  return out;
}

constexpr std::int64_t chunk = 64;
constexpr unsigned threads = 32;

/// Runs the blocks of each launch in reverse order. A device may run them in any order.
template <int arrays, typename Address, typename Block>
int run_launches(const std::vector<std::int64_t>& sizes, const Address& address,
                 const Block& block) {
  int launches = 0;
  const auto start = [&](const Chunks<arrays>& chunks, int blocks, std::size_t) -> const char* {
    ++launches;
    for (int b = blocks; b-- > 0;)
      for (unsigned thread = 0; thread < threads; ++thread)
        block(chunks, static_cast<unsigned>(b), thread);
    return nullptr;
  };
  // Every tenth tensor is treated as if its types differed from those of its neighbors, so that a
  // separate launch is needed.
  const auto same = [](std::size_t i, std::size_t j) { return (i % 10 == 0) == (j % 10 == 0); };
  EXPECT_EQ(launch_chunks<arrays>(sizes.data(), sizes.size(), chunk, address, same, start),
            nullptr);
  return launches;
}

// Fails if a chunk is lost, repeated or assigned to another tensor, or the result differs from the
// CPU result in any bit.
TEST(MultiTensor, AdamMatchesTheCpuBitwise) {
  Random random(31);
  const AdamOptions all_options[] = {{.weight_decay = 0.1},
                                     {.weight_decay = 0.1, .decoupled = false},
                                     {.eps = 1e-40, .bias_correction = false},
                                     {.beta1 = 0}};
  int turn = 0;
  for (const Types& types : all_types) {
    const auto sizes = random_sizes(random, chunk);
    auto ours = random_list(random, sizes, types);
    auto expected = ours;
    const AdamConstants constants = adam_constants(all_options[turn++ % 4], 7);
    const auto address = [&](std::size_t i, int array) -> void* {
      Tensor& t = ours[i];
      return array == 0   ? t.p.data()
             : array == 1 ? t.g.data()
             : array == 2 ? t.m.data()
                          : t.v.data();
    };
    with_device_types(types.p, types.g, types.s, [&](auto p, auto g, auto s) {
      const int launches = run_launches<4>(
          sizes, address, [&](const Chunks<4>& chunks, unsigned block, unsigned thread) {
            adam_block<decltype(p), decltype(g), decltype(s)>(chunks, constants, chunk, block,
                                                              thread, threads);
          });
      EXPECT_GT(launches, 20);
    });
    for (std::size_t i = 0; i < ours.size(); ++i) {
      Tensor& t = expected[i];
      adam_update(Isa::scalar, constants,
                  {t.p.data(), t.g.data(), t.m.data(), t.v.data(), types.p, types.g, types.s}, 0,
                  sizes[i]);
      expect_same(ours[i].p, t.p, "p of tensor " + std::to_string(i));
      expect_same(ours[i].m, t.m, "m of tensor " + std::to_string(i));
      expect_same(ours[i].v, t.v, "v of tensor " + std::to_string(i));
    }
  }
}

TEST(MultiTensor, LionMatchesTheCpuBitwise) {
  Random random(32);
  double decay = 0;
  for (const Types& types : all_types) {
    const auto sizes = random_sizes(random, chunk);
    auto ours = random_list(random, sizes, types);
    auto expected = ours;
    const LionConstants constants = lion_constants(1e-3, 0.9, 0.99, decay);
    decay = 0.1 - decay;
    const auto address = [&](std::size_t i, int array) -> void* {
      Tensor& t = ours[i];
      return array == 0 ? t.p.data() : array == 1 ? t.g.data() : t.m.data();
    };
    with_device_types(types.p, types.g, types.s, [&](auto p, auto g, auto s) {
      run_launches<3>(sizes, address,
                      [&](const Chunks<3>& chunks, unsigned block, unsigned thread) {
                        lion_block<decltype(p), decltype(g), decltype(s)>(chunks, constants, chunk,
                                                                          block, thread, threads);
                      });
    });
    for (std::size_t i = 0; i < ours.size(); ++i) {
      Tensor& t = expected[i];
      lion_update(Isa::scalar, constants,
                  {t.p.data(), t.g.data(), t.m.data(), types.p, types.g, types.s}, 0, sizes[i]);
      expect_same(ours[i].p, t.p, "p of tensor " + std::to_string(i));
      expect_same(ours[i].m, t.m, "m of tensor " + std::to_string(i));
    }
  }
}

// Fails if launches continue after one has failed, or its error is lost.
TEST(MultiTensor, StopsAtTheFirstError) {
  const std::vector<std::int64_t> sizes(200, 10);
  int launches = 0;
  const char* problem = launch_chunks<3>(
      sizes.data(), sizes.size(), chunk, [](std::size_t, int) -> void* { return nullptr; },
      [](std::size_t, std::size_t) { return true; },
      [&](const Chunks<3>&, int, std::size_t) -> const char* {
        return ++launches == 2 ? "refused" : nullptr;
      });
  EXPECT_STREQ(problem, "refused");
  EXPECT_EQ(launches, 2);
}

}  // namespace
