#include "llm/parallel/plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "anyaccel/error.h"
#include "anyaccel/pattern.h"

namespace anyaccel::llm {

namespace {

enum class Block { none, attention, feed_forward, vocabulary };

/// Role of a matrix, determined by the last part of its name.
struct Role {
  const char* name;
  Block block;
  ShardStyle style;
};

constexpr std::array kRoles = {
    Role{"q_proj", Block::attention, ShardStyle::column},
    Role{"k_proj", Block::attention, ShardStyle::column},
    Role{"v_proj", Block::attention, ShardStyle::column},
    Role{"qkv_proj", Block::attention, ShardStyle::column},
    Role{"attn.c_attn", Block::attention, ShardStyle::column},
    Role{"o_proj", Block::attention, ShardStyle::row},
    Role{"out_proj", Block::attention, ShardStyle::row},
    Role{"attn.c_proj", Block::attention, ShardStyle::row},
    Role{"gate_proj", Block::feed_forward, ShardStyle::column},
    Role{"up_proj", Block::feed_forward, ShardStyle::column},
    Role{"gate_up_proj", Block::feed_forward, ShardStyle::column},
    Role{"w1", Block::feed_forward, ShardStyle::column},
    Role{"w3", Block::feed_forward, ShardStyle::column},
    Role{"fc1", Block::feed_forward, ShardStyle::column},
    Role{"mlp.c_fc", Block::feed_forward, ShardStyle::column},
    Role{"down_proj", Block::feed_forward, ShardStyle::row},
    Role{"w2", Block::feed_forward, ShardStyle::row},
    Role{"fc2", Block::feed_forward, ShardStyle::row},
    Role{"mlp.c_proj", Block::feed_forward, ShardStyle::row},
    Role{"embed_tokens", Block::vocabulary, ShardStyle::vocabulary},
    Role{"wte", Block::vocabulary, ShardStyle::vocabulary},
    Role{"lm_head", Block::vocabulary, ShardStyle::vocabulary},
};

bool ends_with_part(std::string_view name, std::string_view part) {
  return name == part || (name.size() > part.size() && name.ends_with(part) &&
                          name[name.size() - part.size() - 1] == '.');
}

Role role_of(const std::string& name) {
  const std::string_view module = std::string_view(name).substr(0, name.rfind('.'));
  for (const Role& role : kRoles) {
    if (ends_with_part(module, role.name)) return role;
  }
  return {"", Block::none, ShardStyle::replicated};
}

[[noreturn]] void bad_plan(const std::string& name, std::string what, std::string got,
                           std::string want) {
  throw Error(ErrorCode::invalid_argument, "tensor-parallel",
              {.what = "weight " + name + " " + std::move(what),
               .got = std::move(got),
               .want = std::move(want)});
}

/// Which blocks are split. The tensors of a block must either all have their default styles or
/// all be replicated.
struct Splits {
  std::array<std::optional<bool>, 4> split;

  void add(const std::string& name, const Role& role, ShardStyle style) {
    if (style != role.style && style != ShardStyle::replicated) {
      bad_plan(name, "does not support this style", to_string(style),
               role.block == Block::none ? "replicated"
                                         : std::string(to_string(role.style)) + " or replicated");
    }
    if (role.block == Block::none) return;
    auto& block = split[static_cast<std::size_t>(role.block)];
    const bool now = style != ShardStyle::replicated;
    if (block && *block != now) {
      bad_plan(name, "is not split like the other weights of its block", to_string(style),
               now ? "replicated" : to_string(role.style));
    }
    block = now;
  }
  bool operator[](Block block) const {
    return split[static_cast<std::size_t>(block)].value_or(false);
  }
};

Slice times(const Slice& slice, std::int64_t factor, std::int64_t offset = 0) {
  return {offset + slice.begin * factor, slice.count * factor};
}

/// The rank, the world size and the granularity of the feed-forward split.
struct Share {
  int rank, size;
  std::int64_t unit;
};

/// Number of adjacent inner features that must stay on one rank.
std::int64_t inner_unit(std::int64_t inner, std::int64_t group, int size) {
  if (group == 0) return 1;
  for (const std::int64_t unit : {group, std::int64_t{64}, std::int64_t{32}}) {
    if (inner % unit == 0 && inner / unit >= size) return unit;
  }
  return 1;
}

Slice share_inner(std::int64_t inner, const Share& share) {
  return times(balanced(inner / share.unit, share.rank, share.size), share.unit);
}

/// Returns the ranges that this rank holds in the split dimension of a tensor.
std::vector<Slice> parts_of(const ModelConfig& config, const Role& role, const std::string& name,
                            const Share& share) {
  const int rank = share.rank, size = share.size;
  if (role.block == Block::vocabulary) return {balanced(config.vocab_size, rank, size)};
  const std::string_view kind = role.name;
  if (role.block == Block::attention) {
    const HeadShare heads = share_heads(config.num_heads, config.num_kv_heads, rank, size);
    const std::int64_t wide = config.head_dim;
    if (kind == "k_proj" || kind == "v_proj") return {times(heads.key, wide)};
    if (kind == "qkv_proj" || kind == "attn.c_attn") {
      const std::int64_t keys = config.num_heads * wide;
      return {times(heads.query, wide), times(heads.key, wide, keys),
              times(heads.key, wide, keys + config.num_kv_heads * wide)};
    }
    return {times(heads.query, wide)};
  }
  const bool expert = name.find(".experts.") != std::string::npos;
  const std::int64_t inner = expert ? config.expert_size : config.intermediate_size;
  const Slice mine = expert ? balanced(inner, rank, size) : share_inner(inner, share);
  if (kind == "gate_up_proj") return {mine, {inner + mine.begin, mine.count}};
  return {mine};
}

}  // namespace

const char* to_string(ShardStyle style) noexcept {
  switch (style) {
    case ShardStyle::replicated: return "replicated";
    case ShardStyle::column: return "column";
    case ShardStyle::row: return "row";
    case ShardStyle::vocabulary: return "vocabulary";
  }
  return "unknown";
}

Slice balanced(std::int64_t total, std::int64_t rank, std::int64_t size) {
  const std::int64_t part = total / size;
  const std::int64_t larger = total % size;
  return {rank * part + std::min(rank, larger), part + (rank < larger ? 1 : 0)};
}

namespace {

HeadShare share_groups(std::int64_t group, std::int64_t kv_heads, int rank, int size) {
  const Slice key = balanced(kv_heads, rank, size);
  return {times(key, group), key};
}

HeadShare cut_groups(std::int64_t heads, std::int64_t group, int rank, int size) {
  const Slice query = balanced(heads, rank, size);
  const std::int64_t first = query.begin / group, last = (query.begin + query.count - 1) / group;
  return {query, {first, last - first + 1}};
}

/// Returns the largest number of heads on any rank. Query heads and key heads count equally,
/// because each has rows in two matrices.
template <typename ShareOf>
std::int64_t most_of(int size, const ShareOf& share_of) {
  std::int64_t most = 0;
  for (int rank = 0; rank < size; ++rank) {
    const HeadShare share = share_of(rank);
    most = std::max(most, share.query.count + share.key.count);
  }
  return most;
}

}  // namespace

HeadShare share_heads(std::int64_t heads, std::int64_t kv_heads, int rank, int size) {
  const std::int64_t group = heads / kv_heads;
  if (kv_heads >= size) {
    const auto whole = [&](int of) { return share_groups(group, kv_heads, of, size); };
    const auto cut = [&](int of) { return cut_groups(heads, group, of, size); };
    return most_of(size, cut) < most_of(size, whole) ? cut(rank) : whole(rank);
  }
  std::int64_t key = 0;
  Slice ranks = balanced(size, key, kv_heads);
  while (rank >= ranks.begin + ranks.count) ranks = balanced(size, ++key, kv_heads);
  const Slice query = balanced(group, rank - ranks.begin, ranks.count);
  return {{key * group + query.begin, query.count}, {key, 1}};
}

std::vector<std::int64_t> TensorPlan::local_shape() const {
  std::vector<std::int64_t> out = shape;
  if (parts.empty()) return out;
  out[dim] = 0;
  for (const Slice& part : parts) out[dim] += part.count;
  return out;
}

const TensorPlan* ParallelPlan::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorPlan& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

bool is_second_inner(const std::string& name) {
  const Role role = role_of(name);
  return role.block == Block::feed_forward && role.style == ShardStyle::row &&
         name.ends_with(".weight") && name.find(".experts.") == std::string::npos;
}

ParallelPlan make_plan(const ModelConfig& config, const std::vector<TensorShape>& shapes, int rank,
                       int size, const std::vector<StyleRule>& rules, std::int64_t group) {
  ParallelPlan plan{.rank = rank, .size = size, .local = config};
  const Share share{rank, size, inner_unit(config.intermediate_size, group, size)};
  plan.key = "rank " + std::to_string(rank) + " of " + std::to_string(size) + ", units of " +
             std::to_string(share.unit) + "\n";
  for (const auto& [pattern, style] : rules) plan.key += pattern + " " + to_string(style) + "\n";
  Splits splits;
  const bool turned = config.model_type == "gpt2";  // GPT-2 stores transposed matrices
  for (const auto& [name, shape] : shapes) {
    const Role role = role_of(name);
    TensorPlan tensor{.name = name, .style = role.style, .shape = shape};
    for (const auto& [pattern, style] : rules) {
      if (matches_pattern(pattern, name)) tensor.style = style;
    }
    splits.add(name, role, tensor.style);
    if (tensor.style != ShardStyle::replicated) {
      const bool row = tensor.style == ShardStyle::row;
      if (row && shape.size() == 1) {
        tensor.present = rank == 0;
      } else {
        const bool vocabulary = role.block == Block::vocabulary;
        tensor.dim = shape.size() > 1 && !vocabulary && row != turned ? 1 : 0;
        tensor.parts = parts_of(config, role, name, share);
        for (int other = 0; other < size; ++other) {
          if (parts_of(config, role, name, {other, size, share.unit}).front().count == 0) {
            bad_plan(name, "is too small for this number of ranks", std::to_string(size) + " ranks",
                     "fewer ranks");
          }
        }
      }
    }
    plan.tensors.push_back(std::move(tensor));
  }
  plan.attention = splits[Block::attention];
  plan.feed_forward = splits[Block::feed_forward];
  plan.vocabulary = splits[Block::vocabulary];
  plan.tokens = {0, config.vocab_size};
  if (plan.attention) {
    const HeadShare heads = share_heads(config.num_heads, config.num_kv_heads, rank, size);
    plan.local.num_heads = heads.query.count;
    plan.local.num_kv_heads = heads.key.count;
    const std::int64_t sharing = config.num_heads / config.num_kv_heads;
    if (heads.key.count > 1 && heads.query.count != heads.key.count * sharing) {
      plan.local.head_group = sharing;
      plan.local.first_head = heads.query.begin - heads.key.begin * sharing;
    }
  }
  if (plan.feed_forward) {
    plan.local.intermediate_size = share_inner(config.intermediate_size, share).count;
    if (config.num_experts > 0)
      plan.local.expert_size = balanced(config.expert_size, rank, size).count;
  }
  if (plan.vocabulary) {
    plan.tokens = balanced(config.vocab_size, rank, size);
    plan.local.vocab_size = plan.tokens.count;
  }
  return plan;
}

}  // namespace anyaccel::llm
