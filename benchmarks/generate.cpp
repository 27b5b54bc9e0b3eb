// AnyAccel's program for the generation benchmark.
// usage: bench_generate MODEL bf16|int8|int4 [parallel|first]
//
// Continues generate.py's prompt and prints tokens/s for prefill and decode, and the relative
// distance of the logits from transformers' float32 logits in MODEL/logits.f32. With `first`, it
// generates one token and prints the milliseconds from the start of loading to that token.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "timing.h"

namespace {

namespace llm = anyaccel::llm;

std::vector<std::int64_t> prompt(const llm::ModelConfig& config) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 256; ++i) ids.push_back((i * 7919 + 13) % config.vocab_size);
  return ids;
}

llm::GenerateOptions greedy(std::int64_t tokens) {
  llm::GenerateOptions options;
  options.max_new_tokens = tokens;
  options.sampling.temperature = 0;
  return options;
}

/// Returns |ours - theirs| / |theirs| of the logits, or -1 if MODEL/logits.f32 cannot be read.
double off(const llm::Model& model, const std::filesystem::path& folder) {
  std::ifstream file(folder / "logits.f32", std::ios::binary);
  std::vector<float> theirs(static_cast<std::size_t>(model.config().vocab_size));
  if (!file.read(reinterpret_cast<char*>(theirs.data()),
                 static_cast<std::streamsize>(theirs.size() * sizeof(float)))) {
    return -1;
  }
  const at::Tensor all = model.logits(prompt(model.config()));
  const float* const ours = all.const_data_ptr<float>() + all.numel() - model.config().vocab_size;
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    distance += std::pow(ours[i] - theirs[i], 2);
    length += std::pow(theirs[i], 2);
  }
  return std::sqrt(distance / length);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: bench_generate MODEL bf16|int8|int4 [parallel|first]\n");
    return 2;
  }
  const std::string kind = argv[2], how = argc > 3 ? argv[3] : "";
  const llm::LoadOptions options{.dtype = c10::kBFloat16,
                                 .bits = kind == "int8"   ? 8
                                         : kind == "int4" ? 4
                                                          : 0};
  const auto begin = std::chrono::steady_clock::now();
  const auto model = how == "parallel" ? llm::Model::load_parallel(argv[1], c10::kBFloat16)
                                       : llm::Model::load(argv[1], options);
  benchmarks::Numbers numbers;
  if (how == "first") {
    llm::generate(model, nullptr, {1}, greedy(1));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    numbers.add("first_token_ms", took.count());
    numbers.print();
    return 0;
  }
  const double error = off(model, argv[1]);  // also warms up
  std::vector<double> prefill, decode;
  for (int i = 0; i < 3; ++i) {
    const auto result = llm::generate(model, nullptr, prompt(model.config()), greedy(33));
    prefill.push_back(256 / result.prefill_seconds);
    decode.push_back(static_cast<double>(result.ids.size() - 1) / result.decode_seconds);
  }
  std::sort(prefill.begin(), prefill.end());
  std::sort(decode.begin(), decode.end());
  numbers.add("prefill_tokens_s", prefill[1]);
  numbers.add("decode_tokens_s", decode[1]);
  numbers.add("logits_off", error);
  model.barrier();
  if (model.rank() == 0) numbers.print();
}
