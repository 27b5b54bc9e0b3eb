#include "llm/generate/drafter.h"

#include <algorithm>

#include "anyaccel/error.h"

namespace anyaccel::llm {

namespace {

constexpr std::int64_t kMaxGuesses = 256;
constexpr std::size_t kLongestMatch = 3;  // maximum match length, as in Saxena's code

/// Returns the maximum number of draft tokens, up to `most`, that one pass can verify with the same
/// rotary frequencies as single decode steps.
std::int64_t within_rotation(const ModelConfig& config, std::int64_t length, std::int64_t most) {
  while (most > 0 && !(same_rotation(config, length - 1, length) &&
                       same_rotation(config, length, length + most)))
    --most;
  return most;
}

}  // namespace

std::vector<std::int64_t> look_up(std::span<const std::int64_t> history, std::int64_t most) {
  const std::size_t size = history.size();
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
  for (std::size_t length = std::min(kLongestMatch, size - std::min<std::size_t>(size, 1));
       length > 0; --length) {
    const auto last = history.last(length);
    std::optional<std::size_t> found;
    for (std::size_t begin = size - length; begin-- > 0;) {
      if (!std::equal(last.begin(), last.end(),
                      history.begin() + static_cast<std::ptrdiff_t>(begin)))
        continue;
      found = begin + length;
      if (size - *found >= wanted) break;
    }
    if (!found) continue;
    const auto follows = history.subspan(*found, std::min(wanted, size - *found));
    return {follows.begin(), follows.end()};
  }
  return {};
}

Drafter::Drafter(const Speculation& speculation) : tokens_(speculation.tokens) {
  if (tokens_ < 0 || tokens_ > kMaxGuesses) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "the number of draft tokens is out of range",
                 .got = std::to_string(tokens_),
                 .want = "0 to " + std::to_string(kMaxGuesses)});
  }
  if (speculation.draft && tokens_ > 0) draft_.emplace(*speculation.draft);
}

std::vector<std::int64_t> Drafter::guess(const ModelConfig& config,
                                         std::span<const std::int64_t> history, std::int64_t most,
                                         const Sampler& sampler) {
  most =
      within_rotation(config, static_cast<std::int64_t>(history.size()), std::min(most, tokens_));
  if (most <= 0) return {};
  return draft_ ? ask_draft(config, history, most, sampler.fork()) : look_up(history, most);
}

std::vector<std::int64_t> Drafter::ask_draft(const ModelConfig& config,
                                             std::span<const std::int64_t> history,
                                             std::int64_t most, Sampler sampler) {
  const ModelConfig& own = draft_->model().config();
  const auto size = static_cast<std::int64_t>(history.size());
  const auto strange = [&](std::int64_t id) { return id >= own.vocab_size; };
  if (size + most > own.context_length() || std::any_of(history.begin(), history.end(), strange))
    return {};
  const std::int64_t kept = draft_->begin(history, std::min(own.context_length(), 2 * size + most));
  std::vector<std::int64_t> all(history.begin(), history.end());
  auto next = static_cast<std::size_t>(kept);
  while (static_cast<std::int64_t>(all.size()) < size + most) {
    const at::Tensor logits =
        draft_->append(std::span<const std::int64_t>(all).subspan(next), /*last_only=*/true);
    next = all.size();
    const std::int64_t id = sampler.choose(row_of(logits, 0), all);
    if (id >= config.vocab_size) break;
    all.push_back(id);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(size), all.end()};
}

}  // namespace anyaccel::llm
