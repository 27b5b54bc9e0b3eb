// Divides the elements of parameters among ranks, as ZeRO does (Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", SC 2020, arXiv:1910.02054).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anyaccel::llm {

/// Number of elements and kind of a parameter. The kind represents the dtype: parameters share a
/// bucket only if they have the same kind.
struct PartitionItem {
  std::int64_t count = 0;
  int kind = 0;
};

/// A range of elements of one parameter that belongs to this rank.
struct OwnedSlice {
  std::size_t parameter = 0;
  std::size_t bucket = 0;
  std::int64_t begin = 0;  ///< first element in the parameter
  std::int64_t count = 0;
  std::int64_t place = 0;  ///< position in this rank's part of the bucket
};

/// Parameters whose gradients are reduced together. A bucket has `ranks` parts of equal size, one
/// per rank.
struct PartitionBucket {
  std::vector<std::size_t> parameters;
  std::vector<std::int64_t> offsets;  ///< position of each parameter in the bucket
  std::int64_t part = 0;              ///< elements per rank, including padding
  std::vector<OwnedSlice> slices;     ///< this rank's part, in order of `place`
};

/// Assigns parameters to buckets, from the last to the first, because the backward pass computes
/// gradients in about that order. Every parameter is in exactly one bucket. Parameters and parts
/// begin at multiples of kLine elements, so that kernels treat each element of a parameter alike
/// for any number of ranks: as part of a full vector or of the remainder.
class Partition {
 public:
  static constexpr std::int64_t kLine = 16;

  /// `most`: maximum number of elements in a bucket. A larger parameter gets its own bucket.
  Partition(std::span<const PartitionItem> items, std::int64_t most, int rank, int ranks);

  const std::vector<PartitionBucket>& buckets() const noexcept { return buckets_; }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  /// Number of elements in a bucket, including padding.
  std::int64_t size(std::size_t bucket) const { return buckets_[bucket].part * ranks_; }
  /// Number of elements in this rank's parts of all buckets.
  std::int64_t owned() const noexcept { return owned_; }

 private:
  void add(std::vector<std::size_t> members, std::span<const PartitionItem> items);

  int rank_, ranks_;
  std::int64_t owned_ = 0;
  std::vector<PartitionBucket> buckets_;
};

}  // namespace anyaccel::llm
