#include "llm/parallel/module_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "anyaccel/error.h"
#include "anyaccel/pattern.h"

namespace anyaccel::llm {

namespace {

struct RowName {
  const char* name;
  bool attention;
};

constexpr std::array kRowNames = {
    RowName{"o_proj", true},
    RowName{"out_proj", true},
    RowName{"wo", true},
    RowName{"attention.dense", true},
    RowName{"down_proj", false},
    RowName{"fc2", false},
    RowName{"w2", false},
    RowName{"linear2", false},
    RowName{"lin2", false},
    RowName{"c_proj", false},
    RowName{"dense_4h_to_h", false},
};

const RowName* row_name(std::string_view name) {
  for (const RowName& row : kRowNames) {
    const std::string_view last = row.name;
    if (name == last || (name.ends_with(last) && name[name.size() - last.size() - 1] == '.'))
      return &row;
  }
  return nullptr;
}

std::string_view parent(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

/// Makes the linear layers next to a row-parallel layer column-parallel if their outputs can be its
/// inputs. Replicates all layers if there is no such linear layer, or if one of them has an
/// unsuitable size.
void derive_block(const std::vector<ModuleLayer>& layers, std::size_t row, std::int64_t unit,
                  int ranks, std::vector<ModuleRule>& rules) {
  const std::int64_t inputs = layers[row].shape[1];
  if (inputs % unit != 0 || inputs / unit < ranks) return;
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ModuleLayer& other = layers[i];
    if (i == row || other.embedding || parent(other.name) != parent(layers[row].name)) continue;
    const std::int64_t outputs = other.shape[0];
    // Assume that the parts of a fused layer have the same size. With fewer key heads than query
    // heads, the sizes are unknown.
    if (outputs % inputs != 0 || outputs / inputs > 3) return;
    columns.push_back(i);
  }
  if (columns.empty()) return;
  for (const std::size_t i : columns) {
    const int fused = static_cast<int>(layers[i].shape[0] / inputs);
    rules[i] = {layers[i].name, ModuleStyle::column, fused, unit};
  }
  rules[row] = {layers[row].name, ModuleStyle::row, 1, unit};
}

[[noreturn]] void fail(const ModuleLayer& layer, const std::string& what, std::string got,
                       std::string want) {
  throw Error(
      ErrorCode::invalid_argument, "tensor_parallel",
      {.what = "layer " + layer.name + " " + what, .got = std::move(got), .want = std::move(want)});
}

bool can_split(const ModuleLayer& layer, int ranks) {
  return layer.splittable && layer.shape[0] / ranks > std::max<std::int64_t>(layer.padding, 0);
}

ModulePart part_of(const ModuleLayer& layer, const ModuleRule& rule, int rank, int ranks) {
  ModulePart part{.style = rule.style};
  if (rule.style == ModuleStyle::replicated) return part;
  if (layer.embedding != (rule.style == ModuleStyle::vocabulary) ||
      (layer.embedding && !can_split(layer, ranks))) {
    fail(layer, "does not support this style", to_string(rule.style),
         layer.embedding ? "vocabulary (without max_norm, and with padding_idx below each rank's "
                           "size) or replicated"
                         : "column, gathered, row or replicated");
  }
  part.dim = rule.style == ModuleStyle::row ? 1 : 0;
  const int fused = rule.style == ModuleStyle::column ? rule.fused : 1;
  const std::int64_t size = layer.shape[part.dim];
  if (fused < 1 || rule.unit < 1 || size % (fused * rule.unit) != 0) {
    fail(
        layer, "has a size that its rule cannot split", std::to_string(size),
        "a multiple of fused * unit, " + std::to_string(fused) + " * " + std::to_string(rule.unit));
  }
  const std::int64_t units = size / fused / rule.unit;
  if (units < ranks) {
    fail(layer, "is too small for this number of ranks", std::to_string(ranks) + " ranks",
         "at most " + std::to_string(units) + " ranks");
  }
  const Slice mine = balanced(units, rank, ranks);
  for (int i = 0; i < fused; ++i)
    part.slices.push_back({(i * units + mine.begin) * rule.unit, mine.count * rule.unit});
  return part;
}

}  // namespace

const char* to_string(ModuleStyle style) noexcept {
  switch (style) {
    case ModuleStyle::replicated: return "replicated";
    case ModuleStyle::column: return "column";
    case ModuleStyle::gathered: return "gathered";
    case ModuleStyle::row: return "row";
    case ModuleStyle::vocabulary: return "vocabulary";
  }
  return "unknown";
}

std::vector<std::int64_t> ModulePart::local_shape(std::vector<std::int64_t> shape) const {
  if (slices.empty()) return shape;
  shape[dim] = 0;
  for (const Slice& slice : slices) shape[dim] += slice.count;
  return shape;
}

std::vector<ModulePart> plan_module(const std::vector<ModuleLayer>& layers,
                                    const ModuleParallelOptions& options, int rank, int ranks) {
  std::vector<ModuleRule> rules(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!can_split(layers[i], ranks)) continue;
    rules[i].style = layers[i].embedding ? ModuleStyle::vocabulary : ModuleStyle::gathered;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const RowName* row = layers[i].embedding ? nullptr : row_name(layers[i].name);
    if (!row || (row->attention && options.head_dim <= 0)) continue;
    derive_block(layers, i, row->attention ? options.head_dim : 1, ranks, rules);
  }
  for (const ModuleRule& rule : options.rules) {
    bool fits = false;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!matches_pattern(rule.pattern, layers[i].name)) continue;
      rules[i] = rule;
      fits = true;
    }
    if (!fits) {
      throw Error(ErrorCode::invalid_argument, "tensor_parallel",
                  {.what = "a rule does not match any layer",
                   .got = rule.pattern,
                   .want = "a pattern that matches a Linear or Embedding"});
    }
  }
  std::vector<ModulePart> parts;
  for (std::size_t i = 0; i < layers.size(); ++i)
    parts.push_back(part_of(layers[i], rules[i], rank, ranks));
  return parts;
}

}  // namespace anyaccel::llm
