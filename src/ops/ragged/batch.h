// A ragged batch in the form that DeepSpeed's Python code passes. It contains the new tokens of all
// sequences, one sequence after the other, and for each sequence a list of its blocks in the KV
// cache.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

struct RaggedSequence {
  std::int32_t first, tokens;  ///< first new token in the batch, and number of new tokens
  std::int32_t seen;           ///< number of tokens already in the cache
  std::int32_t unused;
};

/// A unit of attention work: some queries of one sequence. It has DeepSpeed's layout of eight int32
/// values.
struct AttentionAtom {
  const std::int32_t* blocks;
  std::int32_t first_query, queries;
  std::int32_t blocks_count;
  std::int32_t keys;         ///< number of keys, including those of the queries themselves
  std::int32_t first_place;  ///< position of the first query in its sequence
  std::int32_t unused;
};
static_assert(sizeof(AttentionAtom) == 32);

class RaggedBatch {
 public:
  RaggedBatch(const char* where, const Tensor& metadata, const Tensor& sequences) : where_(where) {
    check(metadata, at::kInt, 2, "the batch metadata");
    tokens_ = metadata.const_data_ptr<std::int32_t>()[0];
    count_ = metadata.const_data_ptr<std::int32_t>()[1];
    check(sequences, at::kInt, 4 * count_, "the sequence metadata");
    sequences_ = reinterpret_cast<const RaggedSequence*>(sequences.const_data_ptr<std::int32_t>());
    for (std::int64_t i = 0; i < count_; ++i)
      if (sequences_[i].first < 0 || sequences_[i].tokens < 0 || sequences_[i].seen < 0 ||
          std::int64_t{sequences_[i].first} + sequences_[i].tokens > tokens_)
        fail_argument(where, "a sequence exceeds the batch",
                      c10::str(sequences_[i].tokens, " tokens at ", sequences_[i].first),
                      c10::str("a sequence within ", tokens_, " tokens"));
  }
  void set_blocks(const Tensor& pointers) {
    check(pointers, at::kLong, count_, "the block lists");
    blocks_ = reinterpret_cast<const std::int32_t* const*>(pointers.const_data_ptr<std::int64_t>());
  }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t count() const { return count_; }
  const RaggedSequence& sequence(std::int64_t i) const { return sequences_[i]; }
  const std::int32_t* blocks(std::int64_t i) const { return blocks_[i]; }
  void check_rows(const Tensor& tensor, const char* name) const {
    check_on_host(where_, name, tensor);
    if (tensor.dim() < 1 || tensor.size(0) < tokens_)
      fail_argument(where_, std::string(name) + " has too few rows", words(tensor),
                    c10::str(tokens_, " tokens"));
  }

 private:
  void check(const Tensor& tensor, at::ScalarType type, std::int64_t least,
             const char* name) const {
    check_on_host(where_, name, tensor);
    if (tensor.scalar_type() != type || !tensor.is_contiguous() || tensor.numel() < least)
      fail_argument(where_, std::string(name) + ": wrong size, dtype or strides", words(tensor),
                    c10::str("a contiguous ", type, " tensor with ", least, " elements or more"));
  }

  const char* where_;
  std::int64_t tokens_ = 0, count_ = 0;
  const RaggedSequence* sequences_ = nullptr;
  const std::int32_t* const* blocks_ = nullptr;
};

/// A KV cache [blocks, block size, 2, heads, head dim], and pointers to its keys and values.
struct BlockedCache {
  BlockedCache(const char* where, const Tensor& cache, const Tensor& like) : tensor(cache) {
    check_on_host(where, "the cache", cache);
    if (cache.dim() != 5 || cache.size(1) < 1 || cache.size(4) < 1 || cache.size(2) != 2 ||
        cache.stride(4) != 1 || cache.stride(3) != cache.size(4) ||
        cache.scalar_type() != like.scalar_type())
      fail_argument(where, "the cache has the wrong shape, strides or dtype", words(cache),
                    c10::str("[blocks, block size, 2, heads, head dim] of ", like.scalar_type()));
    block = cache.size(1), heads = cache.size(3), dim = cache.size(4);
  }
  void check(const char* where, std::int64_t number) const {
    if (number < 0 || number >= tensor.size(0))
      fail_argument(where, "a block number is out of range", std::to_string(number),
                    c10::str("0 to ", tensor.size(0) - 1));
  }
  /// Returns the offset, in elements, of the keys (part 0) or values (part 1) of a token.
  std::int64_t at(const std::int32_t* blocks, std::int64_t place, int part) const {
    return blocks[place / block] * tensor.stride(0) + place % block * tensor.stride(1) +
           part * tensor.stride(2);
  }
  Tensor tensor;
  std::int64_t block, heads, dim;
};

// Kernels, grouped by source file.
void ragged_embed(const Tensor& out, const Tensor& ids, const Tensor& weight,
                  const std::optional<Tensor>& positions, std::int64_t offset,
                  const Tensor& metadata, const Tensor& sequences, const Tensor& tokens_to_seq,
                  const Tensor& kv_ptrs);
void gather_for_logits(const Tensor& last, const Tensor& all, const Tensor& metadata,
                       const Tensor& sequences);
/// Rotates the queries in place, and stores the rotated keys and the values in the cache. If
/// `frequencies` is absent, they are computed from `theta`. If rotary_dim is 0, nothing is rotated.
void keep_keys(const char* where, const Tensor& cache, const Tensor& q, const Tensor& k,
               const Tensor& v, std::int64_t rotary_dim, double theta,
               const std::optional<Tensor>& frequencies, const Tensor& metadata,
               const Tensor& sequences, const Tensor& kv_ptrs);

std::int64_t build_atoms(const Tensor& atoms, const Tensor& metadata, const Tensor& sequences,
                         const Tensor& kv_ptrs, std::int64_t q_block_size,
                         std::int64_t kv_block_size);
void attend_atoms(const Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& atoms, double scale, bool causal);

void top_k_gating(const Tensor& expert_counts, const Tensor& scores, const Tensor& assignments,
                  const Tensor& offsets, const Tensor& logits, const Tensor& metadata);
void moe_scatter(const Tensor& moe_input, const Tensor& cumsums, const Tensor& mapped_slots,
                 const Tensor& activations, const Tensor& expert_counts, const Tensor& assignments,
                 const Tensor& offsets);
void moe_gather(const Tensor& layer_output, const Tensor& moe_output, const Tensor& scores,
                const Tensor& mapped_slots, const Tensor& expert_counts, bool normalize_scales);

}  // namespace anyaccel::ops
