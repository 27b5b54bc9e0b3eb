#include "llm/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

namespace {

struct Candidate {
  double value;  ///< logit, then probability
  std::int64_t id;
};

void check(bool good, const char* option, double got, const char* want) {
  if (good) return;
  throw Error(ErrorCode::invalid_argument, "generate",
              {.what = std::string("option ") + option + " is out of range",
               .got = std::to_string(got),
               .want = want});
}

/// Converts sorted logits to probabilities.
void softmax(std::vector<Candidate>& candidates) {
  const double largest = candidates.front().value;
  double sum = 0;
  for (Candidate& candidate : candidates)
    sum += candidate.value = std::exp(candidate.value - largest);
  for (Candidate& candidate : candidates) candidate.value /= sum;
}

void keep(std::vector<Candidate>& candidates, std::size_t count) {
  candidates.resize(std::clamp<std::size_t>(count, 1, candidates.size()));
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.value;
  for (Candidate& candidate : candidates) candidate.value /= sum;
}

[[noreturn]] void no_logits() {
  throw Error(ErrorCode::device_error, "generate", {.what = "the model returned no finite logits"});
}

/// Returns the first index of the maximum, ignoring NaN. Independent lanes let the compiler
/// vectorize this loop, which runs over the whole vocabulary for each token.
std::int64_t greatest(std::span<const float> logits) {
  constexpr std::size_t lanes = 16;
  constexpr float none = -std::numeric_limits<float>::infinity();
  float most[lanes];
  std::fill_n(most, lanes, none);
  std::size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes) {
    const float* const at = logits.data() + i;
    for (std::size_t k = 0; k < lanes; ++k) most[k] = at[k] > most[k] ? at[k] : most[k];
  }
  for (; i < logits.size(); ++i) most[0] = logits[i] > most[0] ? logits[i] : most[0];
  const float top = *std::max_element(most, most + lanes);
  if (top == none) no_logits();
  return std::find(logits.begin(), logits.end(), top) - logits.begin();
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  check(std::isfinite(options.temperature) && options.temperature >= 0, "temperature",
        options.temperature, "0 or more");
  check(options.top_k >= 0, "top-k", static_cast<double>(options.top_k), "0 or more");
  check(options.top_p > 0 && options.top_p <= 1, "top-p", options.top_p,
        "a number above 0 and at most 1");
  check(options.min_p >= 0 && options.min_p <= 1, "min-p", options.min_p, "0 to 1");
  check(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0,
        "repetition-penalty", options.repetition_penalty, "a number above 0");
}

Sampler Sampler::fork() const {
  Sampler other(options_);
  other.random_.set_state(random_.state());
  return other;
}

std::int64_t Sampler::choose(std::span<const float> logits, std::span<const std::int64_t> history) {
  if (options_.temperature == 0 && options_.repetition_penalty == 1.0) return greatest(logits);
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates.push_back({logits[i], static_cast<std::int64_t>(i)});
  if (options_.repetition_penalty != 1.0) {
    for (const std::int64_t id : std::set<std::int64_t>(history.begin(), history.end())) {
      double& value = candidates[static_cast<std::size_t>(id)].value;
      value = value > 0 ? value / options_.repetition_penalty : value * options_.repetition_penalty;
    }
  }
  std::erase_if(candidates, [](const Candidate& c) {
    return std::isnan(c.value) || c.value == -std::numeric_limits<double>::infinity();
  });
  if (candidates.empty()) no_logits();
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    // Break ties by id, so that the order is the same on every machine.
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  };
  if (options_.temperature == 0)
    return std::min_element(candidates.begin(), candidates.end(), likelier)->id;
  const std::size_t kept =
      options_.top_k > 0 ? std::min(static_cast<std::size_t>(options_.top_k), candidates.size())
                         : candidates.size();
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates.end(), likelier);
  candidates.resize(kept);
  for (Candidate& candidate : candidates) candidate.value /= options_.temperature;
  softmax(candidates);
  if (options_.top_p < 1) {
    double sum = 0;
    std::size_t count = 0;
    while (count < candidates.size() && sum < options_.top_p) sum += candidates[count++].value;
    keep(candidates, count);
  }
  if (options_.min_p > 0) {
    const double least = options_.min_p * candidates.front().value;
    const auto end = std::find_if(candidates.begin(), candidates.end(),
                                  [&](auto& c) { return c.value < least; });
    keep(candidates, static_cast<std::size_t>(end - candidates.begin()));
  }
  double draw = random_.uniform();
  for (const Candidate& candidate : candidates) {
    draw -= candidate.value;
    if (draw < 0) return candidate.id;
  }
  return candidates.back().id;
}

}  // namespace anyaccel::llm
