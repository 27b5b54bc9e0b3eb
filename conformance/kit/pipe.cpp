#include "pipe.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

namespace anyaccel::conformance {

namespace {

constexpr std::size_t kHead = 1 + sizeof(std::uint32_t);
constexpr char kSeparator = '\x1f';

}  // namespace

bool send(int file, char kind, const std::string& text) noexcept {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string bytes(kHead, kind);
  std::memcpy(bytes.data() + 1, &length, sizeof(length));
  bytes += text;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto count = ::write(file, bytes.data() + sent, bytes.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool Receiver::take(Message& message) {
  if (buffer_.size() < kHead) return false;
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + 1, sizeof(length));
  if (buffer_.size() < kHead + length) return false;
  message.kind = buffer_[0];
  message.text = buffer_.substr(kHead, length);
  buffer_.erase(0, kHead + length);
  return true;
}

Receiver::State Receiver::receive(Message& message, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!take(message)) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return State::timeout;
    pollfd waited{file_, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(left < 1000 ? left : 1000));
    if (ready <= 0) continue;
    char bytes[4096];
    const auto count = ::read(file_, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return State::closed;
    buffer_.append(bytes, static_cast<std::size_t>(count));
  }
  return State::message;
}

Fields::Fields(const std::string& text) : text_(text) {}

Fields& Fields::add(const std::string& field) {
  text_ += field;
  text_ += kSeparator;
  return *this;
}

std::string Fields::next() {
  const auto end = text_.find(kSeparator, place_);
  if (end == std::string::npos) return {};
  const auto field = text_.substr(place_, end - place_);
  place_ = end + 1;
  return field;
}

}  // namespace anyaccel::conformance
