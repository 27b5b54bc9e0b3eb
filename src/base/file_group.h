// Replaces several files in one folder together: even if the process is killed, the folder contains
// either all old files or all new ones.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/file.h"

namespace anyaccel {

/// Files that are replaced together. `commit()` flushes all of them, writes a note that lists the
/// renames, renames the files and removes the note. `finish_file_group()` completes renames that a
/// killed process left unfinished. Files that are links into other folders are replaced one by one.
/// Not thread-safe. Only one writer may use a folder at a time.
class ANYACCEL_API FileGroup {
 public:
  /// Throws the same errors as finish_file_group().
  explicit FileGroup(std::filesystem::path folder);

  /// Adds a file to the group and removes temporary files that killed writers of this file left
  /// behind. The reference is valid as long as the group exists.
  AtomicFile& add(const std::string& name);

  /// Call at most once. Throws `io` if a file cannot be flushed or renamed. A failed flush leaves
  /// the old files in place.
  void commit();

 private:
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

/// Completes an interrupted `commit()`. Call it before reading files that a FileGroup wrote;
/// usually it only checks whether a note exists. Throws `io` if the folder is not writable, and
/// `corrupt` if the note was not written by a FileGroup.
ANYACCEL_API void finish_file_group(const std::filesystem::path& folder);

}  // namespace anyaccel
