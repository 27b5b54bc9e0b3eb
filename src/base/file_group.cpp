#include "base/file_group.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNote = ".anyaccel-commit";
constexpr const char* kPart = ".part-";

/// A writer locks its temporary file, so a file that can be locked is abandoned.
void remove_if_abandoned(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(descriptor);
}

void remove_abandoned(const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (it->path().filename().string().starts_with(name + kPart)) remove_if_abandoned(it->path());
  }
}

/// Accepts a rename only within the folder, and only from a temporary name that begins with the
/// final name. The note may come from an untrusted folder, so it is checked.
bool plausible(const std::string& aside, const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos &&
         aside.find('/') == std::string::npos && aside.starts_with(name + kPart);
}

}  // namespace

FileGroup::FileGroup(fs::path folder) : folder_(std::move(folder)) {
  finish_file_group(folder_);
  remove_abandoned(folder_, kNote);
}

AtomicFile& FileGroup::add(const std::string& name) {
  remove_abandoned(folder_, name);
  return *files_.emplace_back(std::make_unique<AtomicFile>(folder_ / name));
}

void FileGroup::commit() {
  for (const auto& file : files_) file->flush();
  std::string note;
  for (const auto& file : files_) {
    if (file->path().parent_path() == folder_)
      note += file->aside().filename().string() + '\n' + file->path().filename().string() + '\n';
  }
  write_file_atomically(folder_ / kNote, note);
  for (const auto& file : files_) file->commit();
  ::unlink((folder_ / kNote).c_str());
}

void finish_file_group(const fs::path& folder) {
  const fs::path path = folder / kNote;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return;
  const auto note = try_read_file(path);
  if (!note) return;  // the writer has just finished
  std::istringstream lines(*note);
  std::vector<std::pair<fs::path, fs::path>> moves;
  for (std::string aside, name; std::getline(lines, aside) && std::getline(lines, name);) {
    if (!plausible(aside, name)) {
      throw Error(ErrorCode::corrupt, "finish_save",
                  {.what = path.string() + " is not a valid record of an unfinished save",
                   .got = quoted_text(aside),
                   .hint = "remove the file"});
    }
    moves.emplace_back(folder / aside, folder / name);
  }
  for (const auto& [aside, name] : moves) {
    // ENOENT means that the writer or a different reader has already renamed the file.
    if (::rename(aside.c_str(), name.c_str()) != 0 && errno != ENOENT) {
      throw Error(ErrorCode::io, "finish_save",
                  {.what = "the last save into " + folder.string() +
                           " was interrupted and cannot be completed: " + std::strerror(errno),
                   .hint = "make the folder writable"});
    }
  }
  ::unlink(path.c_str());
}

}  // namespace anyaccel
