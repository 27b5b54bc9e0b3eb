// The folder of built ops: private to its user, bounded, and never half of anything.
//
// <cache>/<op>-<key>/ holds a library and its manifest; it comes there whole, by one rename.
// <cache>/locks/<op>-<key> is who builds. A process that uses a library holds its manifest with a
// shared lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/external_dependencies.h"
#include "build/key.h"
#include "build/lock.h"

namespace anyaccel::build {

/// The text file beside a library.
struct Manifest {
  std::string op;
  std::string content;  ///< Key::content
  std::string key;      ///< Key::key
  std::string sha256;   ///< of the library
  std::vector<ExternalFile> external = {};
  std::vector<std::pair<std::string, std::string>>
      parts;  ///< Key::content_parts and tool_parts, for people

  std::string text() const;
};
/// Nothing when the text is none of ours.
std::optional<Manifest> parse_manifest(const std::string& text);
inline constexpr const char* kManifestSuffix = ".manifest";

/// A library that may be opened: its manifest is held.
struct Held {
  std::filesystem::path library;
  Manifest manifest;
  FileLock use;
};

/// Opens `library` for use when it is whole: its manifest is there and its checksum right.
/// `problem` says what is wrong with one that is there. Used for prebuilt libraries and those of
/// the cache alike.
std::optional<Held> hold(const std::filesystem::path& library, std::string& problem);

/// An entry as `anyaccel ops clean` and the eviction see it.
struct Entry {
  std::filesystem::path folder;
  std::int64_t bytes = 0;
  std::int64_t used = 0;  ///< nanoseconds since 1970 of the last load
};

class Cache {
 public:
  /// ANYACCEL_OP_CACHE, else anyaccel/ops in XDG_CACHE_HOME, else in ~/.cache. Makes nothing.
  ANYACCEL_API static std::filesystem::path default_folder();

  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Creates the folder with mode 0700. Throws `io`, naming the folder and the remedy, if it cannot
  /// be created or written, belongs to another user, or has an untrusted path
  /// (base/trusted_path.h).
  ANYACCEL_API void prepare() const;
  /// Whether libraries of the folder may be opened (base/trusted_path.h).
  bool is_trusted() const noexcept;
  /// Folder for small files that may be deleted at any time. Empty if other users can write the
  /// cache folder, because files and links that others may have placed there must be neither read
  /// nor written.
  ANYACCEL_API std::filesystem::path memo_folder() const noexcept;
  std::filesystem::path entry(const std::string& name) const { return folder_ / name; }
  std::filesystem::path lock_file(const std::string& name) const {
    return folder_ / "locks" / name;
  }

  /// Whether other machines may use it, whose locks are perhaps not seen here: by the kind of its
  /// file system, or as ANYACCEL_OP_CACHE_SHARED says. Nothing that was used within 30 days is then
  /// removed, and what is replaced is set aside for as long.
  ANYACCEL_API bool is_shared() const;
  /// Throws `io` when it cannot be written or has no room for a small build, by writing there.
  void require_room() const;

  /// Puts what lies in `from` into its place, at once, for this user alone. A winner that was there
  /// before stays, unless `replace`, or unless it lost its manifest. The caller holds the lock file
  /// of `name`.
  void publish(const std::filesystem::path& from, const std::string& name, bool replace) const;

  std::vector<Entry> entries() const;
  /// Removes those used longest ago until at most `limit` bytes are left, and what killed builders
  /// left. What is in use or being built stays. Returns how many entries went. Throws nothing: a
  /// cache that cannot be cleaned still serves.
  ANYACCEL_API int evict(std::int64_t limit, const std::string& keep = {}) const noexcept;

  /// Removes the entries of one op, or all when `op` is empty, and what prefer() said. Returns how
  /// many went and how many stayed because they are in use, or may be, by another machine: those go
  /// too with `others_too`.
  ANYACCEL_API std::pair<int, int> clean(const std::string& op, bool others_too = false) const;

  /// The entry that stands above a prebuilt library of this content: one that was built because
  /// that one was not wanted or could not be opened. Throws `io`.
  void prefer(const std::string& op, const std::string& content, const std::string& name) const;
  /// Its name; empty when there is none.
  std::string preferred(const std::string& op, const std::string& content) const;

  /// ANYACCEL_OP_CACHE_SIZE in bytes, with K, M or G; 2G when unset. Throws `invalid_argument`.
  static std::int64_t size_limit();

 private:
  bool try_remove(const Entry& entry, bool others_too) const;
  bool remove_entry(const std::filesystem::path& folder) const;
  std::filesystem::path folder_;
};

/// 0 when `bytes` can be written into a file of the folder, else the system's error. Leaves nothing
/// there.
int write_error(const std::filesystem::path& folder, std::size_t bytes) noexcept;

/// A folder for one build, made in the cache, removed by the destructor. Its owner holds a lock in
/// it.
class PrivateFolder {
 public:
  explicit PrivateFolder(const std::filesystem::path& cache);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  FileLock lock_;
};

}  // namespace anyaccel::build
