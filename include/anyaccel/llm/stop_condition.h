// Requests to end training or generation early.
#pragma once

#include <atomic>
#include <cstddef>
#include <stop_token>
#include <utility>

namespace anyaccel::llm {

/// Tells a call whether its caller wants it to stop, through a `std::stop_token` or an atomic flag.
/// The flag must outlive the call. A default-constructed condition never stops. Thread-safe.
class StopCondition {
 public:
  StopCondition() = default;
  StopCondition(std::nullptr_t) {}
  StopCondition(const std::atomic<bool>* flag) : flag_(flag) {}
  StopCondition(std::stop_token token) : token_(std::move(token)) {}

  /// Returns whether a stop can ever be requested.
  [[nodiscard]] bool stop_possible() const noexcept {
    return flag_ != nullptr || token_.stop_possible();
  }
  [[nodiscard]] bool stop_requested() const noexcept {
    return token_.stop_requested() || (flag_ != nullptr && flag_->load());
  }

 private:
  const std::atomic<bool>* flag_ = nullptr;
  std::stop_token token_;
};

}  // namespace anyaccel::llm
