// How a caller ends training or generation early.
#pragma once

#include <atomic>
#include <cstddef>
#include <stop_token>
#include <utility>

namespace anyaccel::llm {

/// A request to stop, made through a `std::stop_token` or an atomic flag that outlives the call. The default never stops.
/// Thread-safe.
class StopCondition {
 public:
  StopCondition() = default;
  StopCondition(std::nullptr_t) {}
  StopCondition(const std::atomic<bool>* flag) : flag_(flag) {}
  StopCondition(std::stop_token token) : token_(std::move(token)) {}

  /// Whether a stop can be requested at all.
  [[nodiscard]] bool stop_possible() const noexcept { return flag_ != nullptr || token_.stop_possible(); }
  [[nodiscard]] bool stop_requested() const noexcept {
    return token_.stop_requested() || (flag_ != nullptr && flag_->load());
  }

 private:
  const std::atomic<bool>* flag_ = nullptr;
  std::stop_token token_;
};

}  // namespace anyaccel::llm
