// A decoder model's forward pass over a few new positions of one or several sequences, over plain
// arrays. Independent of torch.
#pragma once

#include <vector>

#include "kernels/decoder/matrix.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// A projection. The outputs of consecutive projections are concatenated, so a checkpoint's
/// matrices need not be merged.
struct Linear {
  Matrix matrix;
  Values bias;
};

/// Keys and values of a sequence in one layer, [kv_heads][capacity][head_dim].
struct Cache {
  Values keys, values;
};

/// Feed-forward networks of which each row uses a few, instead of `up` and `down`. The matrices
/// have a floating-point format.
struct Experts {
  Linear router;  ///< one output per expert; no outputs: the layer has no experts
  /// [experts * 2 * inner][hidden]: for each expert, the gate and then the up projection.
  Matrix gate_up;
  Matrix down;  ///< [experts * hidden][inner]
};

struct DecoderLayer {
  std::vector<Linear> qkv;  ///< query, key, value: heads + 2 * kv_heads heads in total
  /// The gate and the up projection, or the single projection before the activation.
  std::vector<Linear> up;
  Linear output, down;
  Experts experts;
  Norm input_norm, post_norm;
  Norm query_norm, key_norm;                 ///< per head, if the model has them (`head_norms`)
  Norm after_attention, after_feed_forward;  ///< if the model has them (`norms_after`)
  std::vector<Cache> caches;                 ///< one per segment
  const float* cos;                          ///< [rows][half]
  const float* sin;
  std::int64_t window;  ///< visible positions; 0: all
  float scale;
};

/// The rows of one sequence: `rows` rows from `begin` on, which follow its `past` positions. They
/// do not see other sequences.
struct Segment {
  std::int64_t past, begin, rows, capacity;
};

/// How ranks that share the layers sum their partial results.
struct RankSum {
  /// Sums values[count] over all ranks, in place. Calls idle(data) while it waits for other ranks.
  /// Null: no sum.
  void (*add_up)(void* group, float* values, std::int64_t count, void (*idle)(void*), void* data);
  void* group;
  bool attention, feed_forward;  ///< which parts are split among ranks
};

struct Decoder {
  std::int64_t hidden, heads, kv_heads, head_dim, inner,
      half;  ///< half: rotated pairs per head; 0: none
  /// Query heads that share a key head, and how many of the first key head's query heads are on
  /// other ranks.
  std::int64_t group, first_head;
  Gate gate;
  bool gated, head_norms, norms_after;
  std::int64_t experts_per_token;  ///< experts per row, in layers with experts
  bool normalize_experts;          ///< whether their shares are normalized to sum to 1
  float softcap;                   ///< of the attention scores; 0: none
  /// Consecutive, with at most max_rows rows in total, or max_prefill_rows for run_prefill().
  std::vector<Segment> segments;
  std::vector<DecoderLayer> layers;
  Norm final_norm;  ///< no norm if weight and bias are null, kind is rms and eps is negative
  Linear head;      ///< no outputs: the result is x as it leaves the layers
  bool last_only;   ///< compute logits only for each segment's last row
  RankSum sum;

  std::int64_t key_head(std::int64_t query) const { return (first_head + query) / group; }
};

/// The part of each layer that a pass computes. The halves are for ranks that share a layer and sum
/// elsewhere; the decoder must then have a single layer.
enum class Half { whole, attention, feed_forward };

/// Maximum rows of a pass.
constexpr std::int64_t max_rows = 16;
constexpr std::int64_t max_head_dim = 512;

/// Scratch memory of a pass with `threads` threads, in bytes.
std::int64_t decoder_scratch(const Decoder& decoder, std::int64_t threads);
/// Passes x[rows][hidden], the rows of all segments, through all layers, and stores the keys and
/// values of each segment's positions past, past + 1, ... in its cache. Writes logits[rows][outputs
/// of head] unless `head` has no outputs. A half does not add its result to x, but
/// writes it to `change` [rows][hidden], without the norm that follows. Exceptions from decoder.sum
/// are rethrown. `scratch` is aligned to 64 bytes. Results do not depend on `threads`, and a row's
/// result does not depend on later rows or other segments.
void run_decoder(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half = Half::whole, float* change = nullptr);

}  // namespace anyaccel::ops
