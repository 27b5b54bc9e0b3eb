#include "llm/parallel/plan_file.h"

#include <string_view>

#include "anyaccel/error.h"
#include "anyaccel/llm/parallel.h"
#include "base/untrusted_text.h"
#include "llm/parallel/shards.h"
#include "llm/quantize/formats.h"
#include "llm/quantize/stored_weights.h"
#include "llm/quantize/weights.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

ShardStyle style_named(const std::string& name, const std::string& pattern,
                       const std::string& source) {
  for (const ShardStyle style :
       {ShardStyle::replicated, ShardStyle::column, ShardStyle::row, ShardStyle::vocabulary}) {
    if (name == to_string(style)) return style;
  }
  throw Error(ErrorCode::unsupported, source,
              {.what = "the style of " + quoted_text(pattern) + " is unknown",
               .got = quoted_text(name),
               .want = "column, row, vocabulary or replicated"});
}

std::string style_text(const Json& value, const std::string& pattern, const std::string& source) {
  if (value.is_string()) return value.get<std::string>();
  throw Error(ErrorCode::corrupt, source,
              {.what = "the style of " + quoted_text(pattern) + " is not a string"});
}

/// In transformers' format, patterns name modules of the model without its head. Styles other than
/// those below describe computations that our plan derives itself (experts, gathered results), and
/// are ignored.
void add_transformers_rules(const Json* rules, const std::string& source,
                            std::vector<StyleRule>& out) {
  if (!rules) return;
  for (const auto& [pattern, value] : rules->items()) {
    const std::string style = style_text(value, pattern, source);
    if (style == "replicated") out.emplace_back("*" + pattern + ".*", ShardStyle::replicated);
    if (style == "colwise") out.emplace_back("*" + pattern + ".*", ShardStyle::column);
    if (style == "rowwise" && !pattern.ends_with("embed_tokens"))
      out.emplace_back("*" + pattern + ".*", ShardStyle::row);
  }
}

}  // namespace

std::vector<StyleRule> read_style_rules(const std::filesystem::path& folder,
                                        const std::filesystem::path& plan_file) {
  std::vector<StyleRule> out;
  if (!plan_file.empty()) {
    const std::string source = plan_file.string();
    const Json rules = read_json_object(plan_file);
    for (const auto& [pattern, value] : rules.items())
      out.emplace_back(pattern, style_named(style_text(value, pattern, source), pattern, source));
    return out;
  }
  const auto path = folder / "config.json";
  const Json config = read_json_object(path);
  const JsonReader in(config, path.string());
  add_transformers_rules(in.object("base_model_tp_plan"), path.string(), out);
  add_transformers_rules(in.object("tp_plan"), path.string(), out);
  return out;
}

std::vector<PlannedTensor> parallel_plan(const std::filesystem::path& folder, int ranks,
                                         const std::filesystem::path& plan_file,
                                         const LoadOptions& options) {
  const StoredWeights stored = open_stored(folder, options);
  const ModelConfig config = ModelConfig::read(folder);
  check_shapes(config, stored);
  const auto shapes = tensor_shapes(config);
  const auto rules = read_style_rules(folder, plan_file);
  const std::int64_t group = inner_group(config, shapes, stored, options);
  std::vector<PlannedTensor> out;
  for (int rank = 0; rank < ranks; ++rank) {
    const ParallelPlan plan = make_plan(config, shapes, rank, ranks, rules, group);
    const auto forms = planned_formats(plan, stored, options);
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
      const TensorPlan& tensor = plan.tensors[i];
      if (rank == 0)
        out.push_back({tensor.name, to_string(tensor.style), tensor.shape, {}, {}, {}});
      out[i].parts.push_back(tensor.present ? tensor.local_shape() : std::vector<std::int64_t>{});
      const auto form = forms.find(tensor.name);
      out[i].bits.push_back(form == forms.end() ? 0 : form->second.bits);
      out[i].groups.push_back(form == forms.end() ? 0 : form->second.group);
    }
  }
  return out;
}

}  // namespace anyaccel::llm
