#include "llm/model/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "anyaccel/accelerator.h"

namespace anyaccel::llm {

namespace {

at::Tensor llama3_scaling(const at::Tensor& frequencies, const RopeConfig& rope) {
  const auto original = static_cast<double>(rope.original_max_positions);
  const double long_wave = original / rope.low_freq_factor;
  const double short_wave = original / rope.high_freq_factor;
  const at::Tensor wave = frequencies.reciprocal().mul(2 * std::numbers::pi);
  const at::Tensor slow = frequencies.div(rope.factor);
  const at::Tensor share = wave.reciprocal()
                               .mul(original)
                               .sub(rope.low_freq_factor)
                               .div(rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor blend = share.neg().add(1).mul(slow).add(share.mul(frequencies));
  const at::Tensor result = at::where(wave.gt(long_wave), slow, frequencies);
  return at::where(at::logical_and(wave.ge(short_wave), wave.le(long_wave)), blend, result);
}

/// YaRN (arXiv:2309.00071): keeps high frequencies, divides low ones by the factor, and
/// interpolates between them.
at::Tensor yarn_scaling(const at::Tensor& frequencies, const RopeConfig& rope,
                        std::int64_t rotated) {
  const auto width = static_cast<double>(rotated);
  const auto pair_of = [&](double turns) {
    return width *
           std::log(static_cast<double>(rope.original_max_positions) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_of(rope.beta_fast);
  double high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  const at::Tensor stretched =
      at::arange(rotated / 2, frequencies.options()).sub(low).div(high - low).clamp(0.0, 1.0);
  return frequencies.div(rope.factor).mul(stretched).add(frequencies.mul(stretched.neg().add(1)));
}

at::Tensor longrope_scaling(const at::Tensor& frequencies, const RopeConfig& rope,
                            std::int64_t length) {
  const auto& factors = length > rope.original_max_positions ? rope.long_factor : rope.short_factor;
  at::Tensor divisor = at::empty_like(frequencies);
  std::transform(factors.begin(), factors.end(), divisor.data_ptr<float>(),
                 [](double v) { return static_cast<float>(v); });
  return frequencies.div(divisor);
}

}  // namespace

at::Tensor rope_frequencies(const ModelConfig& config, std::int64_t length) {
  const RopeConfig& rope = config.rope;
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(config.head_dim) * rope.partial);
  const auto width = static_cast<double>(rotated);
  double theta = rope.theta;
  if (rope.type == RopeType::dynamic && length > config.max_positions) {
    const double stretch = static_cast<double>(length) / static_cast<double>(config.max_positions);
    theta *= std::pow(rope.factor * stretch - (rope.factor - 1), width / (width - 2));
  }
  const auto options = at::TensorOptions().dtype(c10::kFloat);
  at::Tensor frequencies =
      at::pow(theta, at::arange(0, rotated, 2, options).div(width)).reciprocal();
  if (rope.type == RopeType::linear) return frequencies.div(rope.factor);
  if (rope.type == RopeType::llama3) return llama3_scaling(frequencies, rope);
  if (rope.type == RopeType::yarn) return yarn_scaling(frequencies, rope, rotated);
  if (rope.type == RopeType::longrope) return longrope_scaling(frequencies, rope, length);
  return frequencies;
}

RopeTables::RopeTables(const ModelConfig& config) : config_(config) {
  if (config.window_rope_theta <= 0) return;
  ModelConfig plain = config;
  plain.rope = {.theta = config.window_rope_theta};
  plain.window_rope_theta = 0;
  window_ = std::make_shared<RopeTables>(plain);
}

void RopeTables::build(std::int64_t length) {
  const auto options = at::TensorOptions().dtype(c10::kFloat);
  const at::Tensor angles =
      at::outer(at::arange(length, options), rope_frequencies(config_, scaled_));
  const c10::Device device = get_accelerator().torch_device();
  const double scale = config_.rope.attention_factor;
  cos_ = angles.cos().mul_(scale).to(device);
  sin_ = angles.sin().mul_(scale).to(device);
  length_ = length;
}

std::int64_t RopeTables::scaling(std::int64_t length) const {
  if (config_.rope.type == RopeType::dynamic) return std::max(length, config_.max_positions);
  if (config_.rope.type != RopeType::longrope) return config_.max_positions;
  return config_.rope.original_max_positions +
         (length > config_.rope.original_max_positions ? 1 : 0);
}

void RopeTables::prepare(std::int64_t length, std::int64_t count) {
  const std::int64_t scaled = scaling(length);
  if (scaled == scaled_ && count <= length_) return;
  scaled_ = scaled;
  // Round up to powers of two, so that generation does not rebuild the tables for each token.
  std::int64_t rows = 64;
  while (rows < count) rows *= 2;
  build(rows);
}

std::pair<at::Tensor, at::Tensor> RopeTables::rows(std::int64_t begin, std::int64_t count) {
  prepare(begin + count, begin + count);
  return {cos_.narrow(0, begin, count), sin_.narrow(0, begin, count)};
}

std::pair<at::Tensor, at::Tensor> RopeTables::tables(std::int64_t length, std::int64_t count) {
  prepare(length, count);
  return {cos_, sin_};
}

}  // namespace anyaccel::llm
