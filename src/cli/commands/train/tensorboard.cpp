#include "cli/commands/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

#include "cli/commands/train/append.h"

namespace anyaccel::cli {

namespace {

// Tags of protocol buffer fields: the field number times 8, plus the wire type.
constexpr char kEventTime = 1 << 3 | 1, kEventStep = 2 << 3, kEventVersion = 3 << 3 | 2;
constexpr char kEventSummary = 5 << 3 | 2, kEventSession = 7 << 3 | 2;
constexpr char kSummaryValue = 1 << 3 | 2, kValueTag = 1 << 3 | 2, kValueSimple = 2 << 3 | 5;
constexpr char kSessionStatus = 1 << 3, kSessionStart = 1;

/// CRC-32C (Castagnoli), the checksum of TFRecord files.
std::uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
      out[i] = value;
    }
    return out;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : data) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

template <typename T>
void append_fixed(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian, like every host we support
  out.append(bytes, sizeof value);
}

std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

void append_text(std::string& out, char tag, std::string_view text) {
  out += tag;
  append_varint(out, text.size());
  out += text;
}

std::string event(double wall_time, std::int64_t step) {
  std::string out(1, kEventTime);
  append_fixed(out, wall_time);
  out += kEventStep;
  append_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_name() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + "." + host +
         "." + std::to_string(::getpid()) + ".0";
}

}  // namespace

std::string tf_record(std::string_view data) {
  std::string out;
  append_fixed(out, static_cast<std::uint64_t>(data.size()));
  append_fixed(out, masked_crc(out));
  out += data;
  append_fixed(out, masked_crc(data));
  return out;
}

std::string scalar_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, number] : scalars) {
    std::string value;
    append_text(value, kValueTag, name);
    value += kValueSimple;
    append_fixed(value, static_cast<float>(number));
    append_text(summary, kSummaryValue, value);
  }
  std::string out = event(wall_time, step);
  append_text(out, kEventSummary, summary);
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  append_text(out, kEventVersion, "brain.Event:2");
  return out;
}

std::string start_event(double wall_time, std::int64_t step) {
  std::string out = event(wall_time, step);
  append_text(out, kEventSession, std::string{kSessionStatus, kSessionStart});
  return out;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step)
    : path_(folder / file_name()), descriptor_(open_for_appending(path_, "tensorboard")) {
  append_bytes(descriptor_, tf_record(version_event(now())));
  if (first_step > 0) append_bytes(descriptor_, tf_record(start_event(now(), first_step + 1)));
}

EventFile::~EventFile() { ::close(descriptor_); }

bool EventFile::write(std::int64_t step, const Scalars& scalars) {
  return append_bytes(descriptor_, tf_record(scalar_event(now(), step, scalars)));
}

}  // namespace anyaccel::cli
