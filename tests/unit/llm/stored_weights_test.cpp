#include "llm/quantize/stored_weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "llm/model/weights.h"
#include "llm/parallel/shards.h"
#include "llm/quantize/formats.h"
#include "unit/llm/other_parts.h"
#include "unit/llm/small_config.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::llm {
namespace {

enum class Kind { gptq4, gptq8, awq, packed, rows8 };

at::Tensor words(std::int64_t rows, std::int64_t columns) {
  return at::randint(std::numeric_limits<std::int32_t>::min(),
                     std::numeric_limits<std::int32_t>::max(), {rows, columns},
                     at::TensorOptions().dtype(c10::kInt));
}

/// Adds a matrix of random integers. The names of its tensors are `name` plus the format's
/// suffixes.
void add_matrix(NamedTensors& out, Kind kind, const std::string& name, std::int64_t outputs,
                std::int64_t inputs, std::int64_t group) {
  const auto ints = at::TensorOptions().dtype(c10::kInt);
  const at::Tensor scales = at::rand({outputs, inputs / group}).add_(0.1).mul_(0.05);
  const std::int64_t groups = inputs / group;
  switch (kind) {
    case Kind::gptq4:
    case Kind::gptq8: {
      const std::int64_t per = kind == Kind::gptq4 ? 8 : 4;
      out.emplace_back(name + ".qweight", words(inputs / per, outputs));
      out.emplace_back(name + ".qzeros", per == 8
                                             ? words(groups, outputs / per)
                                             : at::full({groups, outputs / per}, 0x7f7f7f7f, ints));
      out.emplace_back(name + ".scales", scales.t().contiguous().to(c10::kHalf));
      out.emplace_back(name + ".g_idx", at::arange(inputs, ints).floor_divide(group));
      break;
    }
    case Kind::awq:
      out.emplace_back(name + ".qweight", words(inputs, outputs / 8));
      out.emplace_back(name + ".qzeros", words(groups, outputs / 8));
      out.emplace_back(name + ".scales", scales.t().contiguous().to(c10::kHalf));
      break;
    case Kind::packed:
      out.emplace_back(name + ".weight_packed", words(outputs, inputs / 8));
      out.emplace_back(name + ".weight_scale", scales.to(c10::kBFloat16));
      out.emplace_back(name + ".weight_zero_point", words(outputs / 8, groups));
      break;
    case Kind::rows8:
      out.emplace_back(name + ".weight", at::randint(-128, 128, {outputs, inputs},
                                                     at::TensorOptions().dtype(c10::kChar)));
      out.emplace_back(name + ".weight_scale", scales.to(c10::kBFloat16));
      break;
  }
}

const char* config_of(Kind kind) {
  switch (kind) {
    case Kind::gptq4: return R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})";
    case Kind::gptq8: return R"({"quantization_config": {"quant_method": "gptq", "bits": 8}})";
    case Kind::awq:
      return R"({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemm"}})";
    case Kind::packed:
      return R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
                 "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}}})";
    case Kind::rows8: break;
  }
  return R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "int-quantized",
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}}}})";
}

void write(const TemporaryFolder& folder, Kind kind, const NamedTensors& tensors) {
  folder.write("config.json", config_of(kind));
  AtomicFile file(folder / "model.safetensors");
  write_safetensors(file, tensors, {});
  file.commit();
}

/// Tensors that view the file's existing mapping in this process. The file must be mapped exactly
/// once.
std::map<std::string, at::Tensor> mapped_tensors(const std::filesystem::path& path) {
  const std::map<std::string, TensorEntry> entries = SafetensorsFile(path).entries();
  std::uintptr_t base = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(std::filesystem::canonical(path).string())) continue;
    EXPECT_EQ(base, 0U);
    base = std::stoull(line, nullptr, 16);
  }
  EXPECT_NE(base, 0U);
  std::size_t values = 0;
  for (const auto& [name, entry] : entries) values = std::max(values, entry.end);
  base += std::filesystem::file_size(path) - values;
  std::map<std::string, at::Tensor> out;
  for (const auto& [name, entry] : entries)
    out[name] = at::from_blob(reinterpret_cast<void*>(base + entry.begin), entry.shape,
                              at::TensorOptions().dtype(entry.dtype));
  return out;
}

/// A folder with one matrix. With rows8, a group contains all inputs.
class StoredParts : public testing::TestWithParam<Kind> {
 protected:
  void make(std::int64_t outputs, std::int64_t inputs) {
    outputs_ = outputs;
    inputs_ = inputs;
    group_ = GetParam() == Kind::rows8 ? inputs : 128;
    NamedTensors tensors;
    add_matrix(tensors, GetParam(), "m", outputs, inputs, group_);
    write(folder_, GetParam(), tensors);
  }
  TensorPlan part(std::size_t dim, const std::vector<Slice>& parts) const {
    return {.name = "m.weight", .shape = {outputs_, inputs_}, .dim = dim, .parts = parts};
  }
  static at::Tensor values(const QuantizedMatrix& made) {
    return dequantize(made.weight, made.scales, 0, made.weight.size(0));
  }
  std::int64_t outputs_ = 0, inputs_ = 0, group_ = 0;
  TemporaryFolder folder_;
  c10::AutoGradMode no_gradient_{false};
};

// Fails if a rank's rows or inputs, or their scales or zero points, are read from the wrong place.
// Also fails if a weight is dequantized unnecessarily.
TEST_P(StoredParts, EqualPartsOfTheWhole) {
  make(2048, 4096);
  const StoredWeights stored(folder_.path());
  const at::Tensor whole = stored.floats("m.weight", {outputs_, inputs_});
  EXPECT_EQ(stored.group(part(0, {})), group_);
  const bool one = group_ == inputs_;
  const int bits = GetParam() == Kind::gptq8 || GetParam() == Kind::rows8 ? 8 : 4;
  struct Case {
    TensorPlan part;
    std::int64_t group;  // 0 if the part cannot stay quantized
  };
  for (const auto& [wanted, group] :
       {Case{part(0, {}), group_}, Case{part(0, {{0, 1024}}), group_},
        Case{part(0, {{1019, 3}}), group_}, Case{part(0, {{8, 100}, {1200, 7}, {2047, 1}}), group_},
        Case{part(1, {{1024, 2048}}), one ? 2048 : 128},
        // A part may begin or end within a group. Groups are then divided into smaller ones that
        // fit.
        Case{part(1, {{1024 + 32, 64}}), 64}, Case{part(1, {{64, 512}}), one ? 512 : 64},
        Case{part(1, {{96, 4000}}), one ? 4000 : 32}, Case{part(1, {{16, 512}}), one ? 512 : 0},
        Case{part(1, {{1, 1000}}), 0}}) {
    at::Tensor want = whole;
    if (!wanted.parts.empty()) {
      std::vector<at::Tensor> pieces;
      for (const Slice& slice : wanted.parts)
        pieces.push_back(
            whole.narrow(static_cast<std::int64_t>(wanted.dim), slice.begin, slice.count));
      want = at::cat(pieces, static_cast<std::int64_t>(wanted.dim));
    }
    EXPECT_TRUE(stored.floats(wanted).equal(want));
    const auto form = stored.form(wanted);
    if (group == 0) {
      EXPECT_FALSE(form);
      continue;
    }
    ASSERT_TRUE(form);
    EXPECT_EQ(*form, (IntegerFormat{bits, group}));
    EXPECT_TRUE(values(stored.integers(wanted)).equal(want));
  }
}

// Crashes if a rank reads integers, scales or zero points that belong only to other ranks.
TEST_P(StoredParts, OtherRanksPartsAreNotRead) {
  for (const std::size_t dim : {0, 1}) {
    make(dim == 0 ? 16384 : 1024,
         dim == 0 ? 1024 : 16384);  // a row of the file is longer than a page
    const Slice own{4096, 2048};
    const at::Tensor want = StoredWeights(folder_.path())
                                .floats("m.weight", {outputs_, inputs_})
                                .narrow(static_cast<std::int64_t>(dim), own.begin, own.count);
    const StoredWeights stored(folder_.path());
    for (const auto& [name, tensor] : mapped_tensors(folder_ / "model.safetensors")) {
      if (name == "m.g_idx") continue;
      const bool turned = name != "m.weight" && name.find("weight_") == std::string::npos;
      const std::size_t along = turned ? 1 - dim : dim;
      const std::int64_t size = tensor.size(static_cast<std::int64_t>(along)),
                         all = dim == 0 ? outputs_ : inputs_;
      if (size == 1) continue;  // one scale for all inputs
      const std::size_t pages =
          forbid_other_parts(tensor, along, {{own.begin * size / all, own.count * size / all}});
      const bool values_of =
          name == "m.weight" || name.ends_with("_packed") || name.ends_with(".qweight");
      EXPECT_TRUE(!values_of || pages > 100) << name << " " << pages;
    }
    ASSERT_TRUE(stored.form(part(dim, {own})));
    EXPECT_TRUE(values(stored.integers(part(dim, {own}))).equal(want));
    EXPECT_TRUE(stored.floats(part(dim, {own})).equal(want));
  }
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  constexpr const char* names[] = {"gptq4", "gptq8", "awq", "packed", "rows8"};
  return names[static_cast<std::size_t>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoredParts,
                         testing::Values(Kind::gptq4, Kind::gptq8, Kind::awq, Kind::packed,
                                         Kind::rows8),
                         name_of);

/// A model with quantized weights in which some matrices are floating-point.
class StoredModel : public testing::Test {
 protected:
  StoredModel() {
    config_.vocab_size = 24;
    config_.hidden_size = 64;
    config_.intermediate_size = 128;
    config_.num_layers = 3;
    config_.head_dim = 32;
    NamedTensors tensors;
    for (const auto& [name, shape] : tensor_shapes(config_)) {
      // In the second layer, one part of a fused matrix is floating-point. In the third layer, one
      // part of a fused matrix has a different group size.
      const bool floats = shape.size() == 1 || name.find("embed") != std::string::npos ||
                          name == "model.layers.1.self_attn.k_proj.weight";
      const std::int64_t group = name == "model.layers.2.mlp.up_proj.weight" ? 64 : 32;
      if (floats) {
        tensors.emplace_back(name, at::randn(shape));
      } else {
        add_matrix(tensors, Kind::packed, name.substr(0, name.size() - 7), shape[0], shape[1],
                   group);
      }
    }
    write(folder_, Kind::packed, tensors);
  }
  ModelConfig config_ = small_config();
  TemporaryFolder folder_;
  c10::AutoGradMode no_gradient_{false};
};

// Fails if a rank's fused matrices do not contain the planned rows, or combine quantized weights
// with different formats. Also fails if the formats differ from those that the plan reports.
TEST_F(StoredModel, RanksKeepIntegers) {
  const StoredWeights stored(folder_.path());
  const auto shapes = tensor_shapes(config_);
  const std::int64_t group = inner_group(config_, shapes, stored, {});
  EXPECT_EQ(group, 32);
  for (int rank = 0; rank < 3; ++rank) {
    const ParallelPlan plan = make_plan(config_, shapes, rank, 3, {}, group);
    Weights got = make_weights(plan.local, c10::kFloat, c10::Device(c10::kCPU));
    load(got, plan.local, stored, &plan);
    Weights want = make_weights(plan.local, c10::kFloat, c10::Device(c10::kCPU));
    visit_tensors(want, plan.local, [&](const std::string& name, const at::Tensor& tensor) {
      const TensorPlan& part = *plan.find(name);
      copy_part(tensor, stored.floats(name, part.shape), part);
    });
    std::map<std::string, at::Tensor> floats;
    each_matrix(
        want, [&](const std::string& name, at::Tensor& weight, Scales&) { floats[name] = weight; });
    each_matrix(got, [&](const std::string& name, at::Tensor& weight, Scales& scales) {
      const bool integers = name != "layers.1.qkv" && name != "layers.2.gate_up";
      EXPECT_EQ(scales.scales.defined(), integers) << name;
      EXPECT_TRUE((integers ? dequantize(weight, scales, 0, weight.size(0)) : weight)
                      .equal(floats.at(name)))
          << name;
    });
    EXPECT_TRUE(got.embedding.equal(want.embedding));
    const auto forms = planned_formats(plan, stored, {});
    EXPECT_EQ(forms.count("model.layers.1.self_attn.q_proj.weight"), 0U);
    EXPECT_EQ(forms.count("model.layers.2.mlp.gate_proj.weight"), 0U);
    EXPECT_EQ(forms.at("model.layers.0.self_attn.o_proj.weight"), (IntegerFormat{4, 32}));
    EXPECT_EQ(forms.at("lm_head.weight"), (IntegerFormat{4, 32}));
  }
}

// Fails if the head gets the quantized weight of a tied embedding, but the embedding stays empty.
TEST_F(StoredModel, TiedIntegerEmbeddingIsRead) {
  config_.tie_word_embeddings = true;
  NamedTensors tensors;
  for (const auto& [name, shape] : tensor_shapes(config_)) {
    if (name == "model.embed_tokens.weight") {
      add_matrix(tensors, Kind::packed, "model.embed_tokens", shape[0], shape[1], 32);
    } else {
      tensors.emplace_back(name, at::randn(shape));
    }
  }
  write(folder_, Kind::packed, tensors);
  const StoredWeights stored(folder_.path());
  Weights weights = make_weights(config_, c10::kFloat, c10::Device(c10::kCPU));
  load(weights, config_, stored);
  EXPECT_TRUE(weights.embedding.equal(stored.floats("model.embed_tokens.weight", {24, 64})));
  EXPECT_TRUE(weights.head.is_same(weights.embedding));
}

}  // namespace
}  // namespace anyaccel::llm
