// Event files for TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::cli {

/// Named values of one step, for example {"train/loss", 2.5}.
using Scalars = std::vector<std::pair<std::string, double>>;

/// Returns a record of a TFRecord file: the length, the data, and a checksum of each.
std::string tf_record(std::string_view data);
/// Returns a serialized tensorflow.Event with a summary of scalars.
std::string scalar_event(double wall_time, std::int64_t step, const Scalars& scalars);
/// Returns the first event of a file.
std::string version_event(double wall_time);
/// Returns an event that makes TensorBoard discard values from `step` on. An earlier process may
/// have written such values after its last checkpoint.
std::string start_event(double wall_time, std::int64_t step);

/// Appends scalars to a new event file in a folder. Not thread-safe.
class EventFile {
 public:
  /// `first_step`: number of steps that earlier processes completed. Throws `io` if the file cannot
  /// be created.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Returns false if writing failed; errno contains the reason.
  bool write(std::int64_t step, const Scalars& scalars);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace anyaccel::cli
