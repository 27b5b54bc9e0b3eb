#include "llm/data/input_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel::llm {

namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;

}  // namespace

InputFile::InputFile(std::filesystem::path path, std::size_t max_line)
    : path_(std::move(path)), max_line_(max_line), descriptor_(open_input(path_, "load_data")) {}

InputFile::~InputFile() { ::close(descriptor_); }

bool InputFile::fill() {
  if (end_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t used = buffer_.size();
  buffer_.resize(used + kChunk);
  ssize_t count = -1;
  do {
    count = ::read(descriptor_, buffer_.data() + used, kChunk);
  } while (count < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(used + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) {
    throw Error(ErrorCode::io, "load_data",
                {.what = "cannot read " + path_.string() + ": " + std::strerror(error)});
  }
  end_ = count == 0;
  return !end_;
}

std::string_view InputFile::peek(std::size_t bytes) {
  while (unread().size() < bytes && fill()) {
  }
  return unread().substr(0, bytes);
}

std::optional<InputFile::Line> InputFile::next_line() {
  std::size_t searched = 0;
  std::size_t stop = std::string_view::npos;
  while ((stop = unread().find('\n', searched)) == std::string_view::npos) {
    searched = unread().size();
    if (searched > max_line_ || !fill()) break;
  }
  Line line{.text = unread().substr(0, std::min(stop, max_line_ + 1)), .number = ++number_};
  if (stop == std::string_view::npos && line.text.empty()) return std::nullopt;
  line.too_long = line.text.size() > max_line_;
  if (line.too_long) line.text = line.text.substr(0, max_line_);
  if (line.too_long && stop == std::string_view::npos) {
    // Discard the rest of the line, but keep a copy of its beginning for the error message.
    const std::string beginning(line.text.substr(0, 256));
    while (stop == std::string_view::npos) {
      begin_ = buffer_.size();
      if (!fill()) break;
      stop = unread().find('\n');
    }
    begin_ = stop == std::string_view::npos ? buffer_.size() : begin_ + stop + 1;
    buffer_.insert(begin_, beginning);
    line.text = std::string_view(buffer_).substr(begin_, beginning.size());
    begin_ += beginning.size();
    return line;
  }
  begin_ = stop == std::string_view::npos ? buffer_.size() : begin_ + stop + 1;
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  return line;
}

std::optional<std::string> InputFile::next_block(std::size_t bytes) {
  std::string_view block = peek(bytes);
  if (block.empty()) return std::nullopt;
  const bool more = block.size() == bytes;
  if (more) {
    const std::size_t line = block.rfind('\n');
    if (line != std::string_view::npos) {
      block = block.substr(0, line + 1);
    } else {
      std::size_t size = block.size();
      while (size > 1 && block.size() - size < 4 &&
             (static_cast<unsigned char>(block[size - 1]) & 0xc0) == 0x80)
        --size;
      if ((static_cast<unsigned char>(block[size - 1]) & 0xc0) == 0xc0 && size > 1) --size;
      block = block.substr(0, size);
    }
  }
  std::string out(block);
  begin_ += out.size();
  return out;
}

}  // namespace anyaccel::llm
