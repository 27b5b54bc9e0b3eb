// A decoder model's forward pass over a few new positions of one or more sequences, on plain
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

/// KV cache of a sequence in one layer, [kv_heads][capacity][head_dim].
struct Cache {
  Values keys, values;
};

/// Mixture of experts: feed-forward networks that replace `up` and `down`. Each row uses only a few
/// of them. The matrices have a floating-point format.
struct Experts {
  Linear router;  ///< one output per expert; zero outputs if the layer has no experts
  /// [experts * 2 * inner][hidden]: for each expert, the gate projection followed by the up
  /// projection.
  Matrix gate_up;
  Matrix down;  ///< [experts * hidden][inner]
};

struct DecoderLayer {
  /// Query, key and value projections, with heads + 2 * kv_heads heads in total.
  std::vector<Linear> qkv;
  /// The gate projection and the up projection, or the single projection before the activation.
  std::vector<Linear> up;
  Linear output, down;
  Experts experts;
  Norm input_norm, post_norm;
  Norm query_norm, key_norm;                 ///< per head; used only with `head_norms`
  Norm after_attention, after_feed_forward;  ///< used only with `norms_after`
  std::vector<Cache> caches;                 ///< one per segment
  const float* cos;                          ///< [rows][half]
  const float* sin;
  std::int64_t window;  ///< sliding-window size in positions; 0: no window
  float scale;
};

/// Rows of one sequence: `rows` rows, starting at row `begin`. Their positions follow the `past`
/// positions in the sequence's KV cache. Rows do not attend to other sequences.
struct Segment {
  std::int64_t past, begin, rows, capacity;
};

/// All-reduce of partial results across tensor-parallel ranks.
struct RankSum {
  /// Sums values[count] over all ranks, in place. Calls idle(data) repeatedly while it waits for
  /// other ranks. The pointer is null if no all-reduce is needed.
  void (*add_up)(void* group, float* values, std::int64_t count, void (*idle)(void*), void* data);
  void* group;
  bool attention, feed_forward;  ///< which halves of a layer are sharded across ranks
};

struct Decoder {
  /// `half` is the number of rotated pairs per head; 0 disables rotation.
  std::int64_t hidden, heads, kv_heads, head_dim, inner, half;
  /// `group` is the number of query heads that share a key head. `first_head` is the number of
  /// query heads that share the first key head but belong to other ranks.
  std::int64_t group, first_head;
  Gate gate;
  bool gated, head_norms, norms_after;
  std::int64_t experts_per_token;  ///< number of experts that each row uses
  bool normalize_experts;  ///< whether the weights of a row's experts are normalized to sum to 1
  float softcap;           ///< soft cap for the attention scores; 0 disables it
  /// Segments are consecutive. They have at most max_rows rows in total, or max_prefill_rows for
  /// run_prefill().
  std::vector<Segment> segments;
  std::vector<DecoderLayer> layers;
  Norm final_norm;  ///< disabled if `eps` is negative
  Linear head;      ///< if it has no outputs, the result is x after the last layer
  bool last_only;   ///< compute logits only for the last row of each segment
  RankSum sum;

  std::int64_t key_head(std::int64_t query) const { return (first_head + query) / group; }
};

/// The part of each layer that a pass computes. `attention` and `feed_forward` are for ranks that
/// share a layer and all-reduce its results outside the op; the decoder must then have a single
/// layer.
enum class Half { whole, attention, feed_forward };

/// Maximum number of rows per pass.
constexpr std::int64_t max_rows = 16;
constexpr std::int64_t max_head_dim = 512;

/// Size of the scratch memory, in bytes, for a pass with `threads` threads.
std::int64_t decoder_scratch(const Decoder& decoder, std::int64_t threads);
/// Passes x[rows][hidden], the rows of all segments, through all layers, and stores the keys and
/// values of each segment in its KV cache, starting at position `past`. Writes logits[rows][outputs
/// of head] unless `head` has no outputs.
///
/// If `half` is not `whole`, the result is not added to x, but written to `change` [rows][hidden]
/// without the norm that follows. Exceptions from decoder.sum are rethrown. `scratch` must be
/// aligned to 64 bytes. Results do not depend on `threads`, and a row's result does not depend on
/// later rows or other segments.
void run_decoder(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half = Half::whole, float* change = nullptr);

}  // namespace anyaccel::ops
