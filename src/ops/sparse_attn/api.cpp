#include "ATen/ops/cat.h"
#include "ATen/ops/full.h"
#include "anyaccel/ops/call.h"
#include "anyaccel/ops/sparse_attention.h"

namespace anyaccel::ops {

namespace {

using namespace ops;
using OptionalTensor = std::optional<at::Tensor>;

using Layout = at::Tensor(c10::string_view, std::int64_t, std::int64_t, std::int64_t, bool,
                          at::IntArrayRef, at::IntArrayRef, at::OptionalIntArrayRef, std::int64_t,
                          std::int64_t, std::int64_t, std::int64_t, std::int64_t, c10::string_view,
                          bool, std::int64_t, std::optional<at::Device>);
using Attention = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&, std::int64_t, std::optional<double>,
                             const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                             c10::string_view, c10::string_view);

OptionalTensor or_none(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

std::int64_t whole_blocks(const char* where, std::int64_t length, std::int64_t block) {
  if (length % block)
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the sequence length is not a multiple of the block size",
                 .got = std::to_string(length),
                 .want = "a multiple of " + std::to_string(block),
                 .hint = "use pad_to_block_size()"});
  return length / block;
}

/// Creates a request by copying the options of a layout kind to the request's members with the same
/// names. Members without a corresponding option keep their defaults.
template <class Request, class Options>
Request request_of(const char* kind, const Options& options) {
  Request out{.kind = kind};
#define ANYACCEL_TAKE(name) \
  if constexpr (requires { options.name; }) out.name = options.name
  ANYACCEL_TAKE(different_layout_per_head);
  ANYACCEL_TAKE(local_window_blocks);
  ANYACCEL_TAKE(global_block_indices);
  ANYACCEL_TAKE(global_block_end_indices);
  ANYACCEL_TAKE(num_local_blocks);
  ANYACCEL_TAKE(num_global_blocks);
  ANYACCEL_TAKE(num_random_blocks);
  ANYACCEL_TAKE(num_sliding_window_blocks);
  ANYACCEL_TAKE(num_different_global_patterns);
  ANYACCEL_TAKE(attention);
  ANYACCEL_TAKE(horizontal_global_attention);
  ANYACCEL_TAKE(seed);
#undef ANYACCEL_TAKE
  return out;
}

}  // namespace

SparsityConfig::SparsityConfig(std::int64_t num_heads, std::int64_t block, Request request)
    : num_heads_(num_heads), block_(block), request_(std::move(request)) {
  make_layout(0);  // validates the options
}

at::Tensor SparsityConfig::make_layout(std::int64_t seq_len) const {
  static const auto op = load_op<Layout>("SparseAttnBuilder", "sparse_attention_layout");
  const Request& r = request_;
  at::OptionalIntArrayRef ends;
  if (r.global_block_end_indices) ends = at::IntArrayRef(*r.global_block_end_indices);
  return calling("SparsityConfig", [&] {
    return op.call(r.kind, num_heads_, block_, seq_len, r.different_layout_per_head,
                   r.local_window_blocks, r.global_block_indices, ends, r.num_local_blocks,
                   r.num_global_blocks, r.num_random_blocks, r.num_sliding_window_blocks,
                   r.num_different_global_patterns, r.attention, r.horizontal_global_attention,
                   r.seed, std::nullopt);
  });
}

#define ANYACCEL_SPARSITY_CONFIG(Kind, name)                                 \
  Kind##SparsityConfig::Kind##SparsityConfig(std::int64_t num_heads,         \
                                             const Kind##SparsityOptions& o) \
      : SparsityConfig(num_heads, o.block, request_of<Request>(name, o)) {}

ANYACCEL_SPARSITY_CONFIG(Dense, "dense")
ANYACCEL_SPARSITY_CONFIG(Fixed, "fixed")
ANYACCEL_SPARSITY_CONFIG(Variable, "variable")
ANYACCEL_SPARSITY_CONFIG(BigBird, "bigbird")
ANYACCEL_SPARSITY_CONFIG(BSLongformer, "bslongformer")
ANYACCEL_SPARSITY_CONFIG(LocalSlidingWindow, "local")

#undef ANYACCEL_SPARSITY_CONFIG

at::Tensor sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& layout, std::int64_t block,
                            std::optional<double> scale, const SparseAttentionMasks& masks) {
  static const auto op = load_op<Attention>("SparseAttnBuilder", "sparse_attention");
  return calling("sparse_attention", [&] {
    return op.call(q, k, v, layout, block, scale, or_none(masks.rpe),
                   or_none(masks.key_padding_mask), or_none(masks.attn_mask),
                   masks.key_padding_mask_mode, masks.attn_mask_mode);
  });
}

SparseSelfAttention::SparseSelfAttention(std::shared_ptr<const SparsityConfig> config,
                                         std::string key_padding_mask_mode,
                                         std::string attn_mask_mode, std::int64_t max_seq_length)
    : config_(std::move(config)),
      key_padding_mask_mode_(std::move(key_padding_mask_mode)),
      attn_mask_mode_(std::move(attn_mask_mode)) {
  if (!config_)
    throw Error(ErrorCode::invalid_argument, "SparseSelfAttention", {.what = "the config is null"});
  master_layout_ = config_->make_layout(max_seq_length);
}

at::Tensor SparseSelfAttention::get_layout(std::int64_t length) const {
  constexpr const char* where = "SparseSelfAttention";
  const std::int64_t blocks = whole_blocks(where, length, config_->block());
  if (blocks > master_layout_.size(1))
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the sequence is too long",
                 .got = std::to_string(length),
                 .want = std::to_string(master_layout_.size(1) * config_->block()) + " or less",
                 .hint = "pass a larger max_seq_length"});
  return master_layout_.narrow(1, 0, blocks).narrow(2, 0, blocks);
}

at::Tensor SparseSelfAttention::forward(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const at::Tensor& rpe,
                                        const at::Tensor& key_padding_mask,
                                        const at::Tensor& attn_mask) const {
  if (!query.defined() || query.dim() != 4)
    throw Error(
        ErrorCode::invalid_argument, "SparseSelfAttention",
        {.what = "the query has the wrong shape", .want = "[batch, heads, length, head dim]"});
  return sparse_attention(
      query, key, value, get_layout(query.size(2)).to(query.device()), config_->block(),
      std::nullopt, {rpe, key_padding_mask, attn_mask, key_padding_mask_mode_, attn_mask_mode_});
}

std::pair<at::Tensor, std::int64_t> pad_to_block_size(const at::Tensor& tensor, std::int64_t block,
                                                      std::int64_t dim, double value) {
  if (block < 1)
    throw Error(ErrorCode::invalid_argument, "pad_to_block_size",
                {.what = "the block size is out of range",
                 .got = std::to_string(block),
                 .want = "1 or more"});
  const std::int64_t over = tensor.size(dim) % block;
  if (!over) return {tensor, 0};
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dim < 0 ? dim + tensor.dim() : dim)] = block - over;
  return {at::cat({tensor, at::full(sizes, value, tensor.options())}, dim), block - over};
}

}  // namespace anyaccel::ops
