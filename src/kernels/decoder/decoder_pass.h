// One thread's view of a pass over a few rows. decoder.cpp and experts.cpp implement it. All
// threads execute the same phases, with a barrier after each phase whose results other threads
// read.
#pragma once

#include <array>

#include "kernels/common/team.h"
#include "kernels/decoder/choose_experts.h"
#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

constexpr std::int64_t max_task_outputs = 256;

/// Number of outputs per task when a matrix product is split into tasks. Each output is computed
/// from `times` matrices.
std::int64_t task_outputs(const Matrix& m, std::int64_t threads, std::int64_t times = 1);

/// Memory layout of a pass: offsets of the shared arrays and of each thread's arrays.
struct DecoderPlan {
  std::int64_t rows, qkv, mixed, inner, change, routed, shared;
  std::int64_t normed, prepared, scores, products, gathered, chosen, groups, own;
  std::int64_t qkv_columns, mixed_columns;

  explicit DecoderPlan(const Decoder& d);
};

class DecoderPass {
 public:
  DecoderPass(Isa isa, const Decoder& d, float* x, float* logits, char* scratch,
              const DecoderPlan& plan, Team& team, Half half, float* change);
  void run();

 private:
  struct Parts {
    const Linear* first;
    std::size_t count;
  };
  /// The (row, expert) pairs of one expert: chosen_[begin, end).
  struct Group {
    std::int64_t expert, begin, end;
  };

  /// Each returns false if the all-reduce failed.
  bool attention(const DecoderLayer& layer);
  bool feed_forward(const DecoderLayer& layer);
  void logits();

  /// Defined in experts.cpp.
  bool experts(const DecoderLayer& layer);
  void choose(const Experts& experts);
  Group group(std::int64_t i) const;
  const void* rows_of(const Group& group, const Matrix& matrix);
  void expert_inner(const Experts& experts);
  void expert_outer(const Experts& experts);

  /// Each thread normalizes all rows, because that is cheaper than a barrier.
  void norm_rows(const Norm& norm);
  void prepare(const Matrix& matrix, const float* from) {
    prepare_rows(isa_, matrix, from, rows_, prepared_);
  }
  /// Sets the matrix that is read next. While a thread waits, it prefetches its part of that
  /// matrix.
  void prefetch(const Matrix& matrix);
  /// Prepares the rows for `matrix`, unless they are already prepared for its format and group
  /// size.
  void prepare_for(const Matrix& matrix, const Matrix*& last, const float* from);
  /// Computes to[rows][outputs of all parts], the matrix products of the prepared rows and the
  /// parts. With `add`, adds them to `to`.
  void project(Parts parts, float* to, bool add, const float* from = nullptr);
  void products(const Linear& part, std::int64_t begin, std::int64_t end, float* to,
                std::int64_t to_row, bool add);
  /// target() is the destination of a half layer's result. adds() returns whether the result is
  /// added to it or overwrites it.
  float* target() const { return half_ != Half::whole ? out_ : adds() ? x_ : change_; }
  bool adds() const { return half_ == Half::whole && !d_.norms_after && !sums_; }
  /// Computes x += part(from), all-reduced over the ranks. If d_.norms_after is set, the result is
  /// normalized before it is added.
  bool add_change(const Linear& part, const float* from, const Norm& norm);
  /// Completes the update of x after target() has been written.
  bool finish_change(const Norm& norm);

  const Segment& segment_of(std::int64_t row) const {
    return d_.segments[segment_of_[static_cast<std::size_t>(row)]];
  }
  const Cache& cache_of(const DecoderLayer& layer, std::int64_t row) const {
    return layer.caches[segment_of_[static_cast<std::size_t>(row)]];
  }
  /// Position of a row in its sequence.
  std::int64_t position_of(std::int64_t row) const {
    return segment_of(row).past + row - segment_of(row).begin;
  }
  std::int64_t last_row(std::int64_t segment) const {
    const Segment& of = d_.segments[static_cast<std::size_t>(segment)];
    return of.begin + of.rows - 1;
  }
  float* qkv_head(std::int64_t row, std::int64_t head) {
    return qkv_ + row * plan_.qkv_columns + head * d_.head_dim;
  }
  void position_head(const DecoderLayer& layer, const Norm& norm, std::int64_t row, float* head);

  Isa isa_;
  const Decoder& d_;
  float* x_;
  std::int64_t rows_;
  float* logits_;
  const DecoderPlan& plan_;
  Team& team_;
  Half half_;
  float* out_;
  bool sums_ = false;             ///< whether the result of the current half layer is all-reduced
  const Matrix* next_ = nullptr;  ///< the matrix that is read first after the current layer
  float *qkv_, *mixed_, *inner_, *change_, *routed_, *normed_, *scores_, *products_;
  char *prepared_, *gathered_;
  Chosen* chosen_;
  std::int32_t* groups_;  ///< start of each group in chosen_, followed by the end of the last one
  std::int64_t group_count_ = 0;
  std::array<std::size_t, max_rows> segment_of_{};
};

}  // namespace anyaccel::ops
