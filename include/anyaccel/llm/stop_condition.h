// Requests to stop training or generation early.
#pragma once

#include <atomic>
#include <cstddef>
#include <stop_token>
#include <utility>

namespace anyaccel::llm {

/// Tells a function whether its caller has requested a stop, through a `std::stop_token` or an
/// atomic flag. The flag must outlive the call. A default-constructed condition never requests a
/// stop. Thread-safe.
class StopCondition {
 public:
  StopCondition() = default;
  StopCondition(std::nullptr_t) {}
  StopCondition(const std::atomic<bool>* flag) : flag_(flag) {}
  StopCondition(std::stop_token token) : token_(std::move(token)) {}

  /// Return whether a stop can ever be requested.
  [[nodiscard]] bool stop_possible() const noexcept {
    return flag_ != nullptr || token_.stop_possible();
  }
  /// Return whether a stop was requested.
  [[nodiscard]] bool stop_requested() const noexcept {
    return token_.stop_requested() || (flag_ != nullptr && flag_->load());
  }

 private:
  const std::atomic<bool>* flag_ = nullptr;
  std::stop_token token_;
};

}  // namespace anyaccel::llm
