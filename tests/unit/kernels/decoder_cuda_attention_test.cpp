// Runs, on the host, the attention over KV caches of a CUDA decoder pass. Compares the results with
// a reference implementation in double precision.
#include "kernels/decoder/cuda/attention.h"
#include "unit/kernels/decoder_cuda_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

/// Query rows, each with its own KV cache.
struct Attention {
  AttendCache launch{};
  std::vector<float> queries, mask, to, partial;
  std::vector<Array> keys, values;

  void run() {
    const std::int64_t end = launch.mask_row;
    partial.assign(
        static_cast<std::size_t>(attend_floats(launch.rows, launch.heads, launch.dim, end)),
        std::nanf(""));
    to.assign(static_cast<std::size_t>(launch.rows * launch.heads * launch.dim), 7);
    launch.partial = partial.data();
    launch.to = to.data();
    cuda_attend_cache(launch, nullptr);
  }

  std::vector<double> want(std::int64_t row, std::int64_t head) {
    const RowPlace& place = launch.places[row];
    const std::int64_t end = place.position + 1, dim = launch.dim,
                       kv_head = (launch.first_head + head) / launch.group;
    std::vector<double> out(static_cast<std::size_t>(dim));
    double sum = 0;
    std::vector<double> scores;
    for (std::int64_t p = 0; p < end; ++p) {
      double score = 0;
      for (std::int64_t d = 0; d < dim; ++d)
        score +=
            double{queries[static_cast<std::size_t>(row * launch.queries_row + head * dim + d)]} *
            keys[static_cast<std::size_t>(row)].get((kv_head * place.capacity + p) * dim + d);
      score *= launch.scale;
      if (launch.softcap > 0) score = launch.softcap * std::tanh(score / launch.softcap);
      if (launch.mask) score += mask[static_cast<std::size_t>(row * launch.mask_row + p)];
      if (launch.window > 0 && p < end - launch.window) score = -infinity;
      scores.push_back(score);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    if (most == -infinity) return out;
    for (std::int64_t p = 0; p < end; ++p) {
      const double share = std::exp(scores[static_cast<std::size_t>(p)] - most);
      sum += share;
      for (std::int64_t d = 0; d < dim; ++d)
        out[static_cast<std::size_t>(d)] += share * values[static_cast<std::size_t>(row)].get(
                                                        (kv_head * place.capacity + p) * dim + d);
    }
    for (double& value : out) value /= sum;
    return out;
  }
};

Attention random_attention(Random& random, std::int64_t longest) {
  Attention out;
  AttendCache& c = out.launch;
  c.rows = random.whole(1, 3);
  c.kv_heads = random.whole(1, 3);
  c.group = random.once_in(3) ? random.whole(5, 11) : random.whole(1, 4);
  // Simulates a rank that holds only some of the heads: the first and last key heads may have
  // incomplete groups of query heads.
  const bool cut = random.once_in(2);
  c.first_head = cut && c.kv_heads > 1 ? random.whole(0, c.group - 1) : 0;
  c.heads = c.kv_heads * c.group - c.first_head - (cut ? random.whole(0, c.group - 1) : 0);
  c.dim = random.once_in(2) ? 16 * random.whole(1, 4) : random.whole(1, 90);
  c.queries_row = (c.heads + 3) * c.dim;
  c.scale = 1 / std::sqrt(static_cast<float>(c.dim));
  c.softcap = random.once_in(3) ? 2.0F : 0.0F;
  c.window = random.once_in(3) ? random.whole(1, longest) : 0;
  c.type = random.element();
  c.mask_row = longest;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t position = random.whole(0, longest - 1),
                       capacity = position + random.whole(1, 5);
    out.keys.push_back(drawn(random, c.type, c.kv_heads * capacity * c.dim));
    out.values.push_back(drawn(random, c.type, c.kv_heads * capacity * c.dim));
    c.places[row] = {values_of(out.keys.back()), values_of(out.values.back()), position, capacity};
  }
  out.queries = floats(random, c.rows * c.queries_row);
  c.queries = out.queries.data();
  if (!random.once_in(3)) return out;
  const double hidden = random.once_in(2) ? 1.0 : random.between(0, 1);
  for (std::int64_t i = 0; i < c.rows * longest; ++i)
    out.mask.push_back(random.between(0, 1) < hidden ? -HUGE_VALF
                                                     : static_cast<float>(random.between(-2, 2)));
  c.mask = out.mask.data();
  return out;
}

// Fails if a row's result differs from the reference implementation or depends on other rows.
// Covers windows, masks, long sequences in several chunks, and rows whose keys are all masked.
TEST(InferenceCuda, AttentionOverCaches) {
  Random random(16);
  for (int i = 0; i < 60; ++i) {
    Attention arguments = random_attention(random, i % 10 == 0 ? 1500 : i % 10 == 1 ? 400 : 90);
    launches_backwards = random.once_in(2);
    arguments.run();
    const AttendCache& c = arguments.launch;
    const std::vector<float> together = arguments.to;
    for (std::int64_t row = 0; row < c.rows; ++row)
      for (std::int64_t head = 0; head < c.heads; ++head) {
        const std::vector<double> want = arguments.want(row, head);
        for (std::int64_t d = 0; d < c.dim; ++d)
          ASSERT_NEAR(together[static_cast<std::size_t>((row * c.heads + head) * c.dim + d)],
                      want[static_cast<std::size_t>(d)], 2e-5)
              << i << ": " << row << " " << head << " " << d;
      }
    launches_backwards = !launches_backwards;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      Attention alone = arguments;
      alone.launch.rows = 1;
      alone.launch.places[0] = arguments.launch.places[row];
      alone.launch.queries = arguments.queries.data() + row * c.queries_row;
      if (c.mask) alone.launch.mask = arguments.mask.data() + row * c.mask_row;
      alone.run();
      for (std::size_t k = 0; k < alone.to.size(); ++k)
        ASSERT_EQ(alone.to[k], together[static_cast<std::size_t>(row * c.heads * c.dim) + k]);
    }
  }
}

// Fails if a long sequence needs more chunks than scratch memory has room for, or a position is not
// in any chunk.
TEST(InferenceCuda, ChunksOfLongSequences) {
  for (const std::int64_t end : {1, 256, 257, 16384, 16385, 16640, 131071, 1 << 20}) {
    const std::int64_t chunks = chunks_of({0, end});
    EXPECT_LE(chunks, max_chunks);
    EXPECT_GE(chunks * attend_chunk(end), end);
    EXPECT_LT((chunks - 1) * attend_chunk(end), end);
    EXPECT_GE(attend_floats(2, 3, 1, end), chunks < 2 ? 0 : 6 * chunks * 3);
    EXPECT_LE(chunks_of({end - 1, end}), 1);
  }
}

}  // namespace
