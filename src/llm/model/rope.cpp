#include "llm/model/rope.h"

#include <ATen/ops/arange.h>
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
  const at::Tensor share =
      wave.reciprocal().mul(original).sub(rope.low_freq_factor).div(rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor blend = share.neg().add(1).mul(slow).add(share.mul(frequencies));
  const at::Tensor result = at::where(wave.gt(long_wave), slow, frequencies);
  return at::where(at::logical_and(wave.ge(short_wave), wave.le(long_wave)), blend, result);
}

}  // namespace

at::Tensor rope_frequencies(const ModelConfig& config, std::int64_t length) {
  const RopeConfig& rope = config.rope;
  const auto width = static_cast<double>(config.head_dim);
  double theta = rope.theta;
  if (rope.type == RopeType::dynamic && length > config.max_positions) {
    const double stretch = static_cast<double>(length) / static_cast<double>(config.max_positions);
    theta *= std::pow(rope.factor * stretch - (rope.factor - 1), width / (width - 2));
  }
  const auto options = at::TensorOptions().dtype(c10::kFloat);
  at::Tensor frequencies = at::pow(theta, at::arange(0, config.head_dim, 2, options).div(width)).reciprocal();
  if (rope.type == RopeType::linear) return frequencies.div(rope.factor);
  if (rope.type == RopeType::llama3) return llama3_scaling(frequencies, rope);
  return frequencies;
}

void RopeTables::build(std::int64_t length) {
  const auto options = at::TensorOptions().dtype(c10::kFloat);
  const at::Tensor angles = at::outer(at::arange(length, options), rope_frequencies(config_, scaled_));
  const c10::Device device = get_accelerator().torch_device();
  cos_ = angles.cos().to(device);
  sin_ = angles.sin().to(device);
  length_ = length;
}

std::pair<at::Tensor, at::Tensor> RopeTables::rows(std::int64_t begin, std::int64_t count) {
  const std::int64_t end = begin + count;
  const bool dynamic = config_.rope.type == RopeType::dynamic;
  const std::int64_t scaled = dynamic ? std::max(end, config_.max_positions) : config_.max_positions;
  if (scaled != scaled_ || end > length_) {
    scaled_ = scaled;
    // Whole powers of two, so that token-by-token generation does not rebuild at every step.
    std::int64_t length = 64;
    while (length < end) length *= 2;
    build(length);
  }
  return {cos_.narrow(0, begin, count), sin_.narrow(0, begin, count)};
}

}  // namespace anyaccel::llm
