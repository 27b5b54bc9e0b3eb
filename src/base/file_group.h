// Several files of one folder that are replaced together: a process killed at any time leaves all
// old ones or all new ones.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/file.h"

namespace anyaccel {

/// Files that belong together. `commit()` flushes them all, writes down what it is about to rename,
/// renames, and removes the note; `finish_file_group()` completes what a killed process left. Files
/// that are links to other folders are replaced one by one. Not thread-safe; one writer per folder
/// at a time.
class ANYACCEL_API FileGroup {
 public:
  /// Throws `io` when the folder cannot be written.
  explicit FileGroup(std::filesystem::path folder);

  /// A file of the group; removes what writers of it that are dead have left. The reference lives
  /// as long as the group.
  AtomicFile& add(const std::string& name);

  /// At most once. Throws `io`; what is in place then is what was there before.
  void commit();

 private:
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

/// Call before reading files that a FileGroup wrote. Nothing to do, and one look into the folder,
/// in the usual case. Throws `io` when the folder cannot be written and `corrupt` when the note is
/// none of ours.
ANYACCEL_API void finish_file_group(const std::filesystem::path& folder);

}  // namespace anyaccel
