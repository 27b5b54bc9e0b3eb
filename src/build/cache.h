// Cache for built ops. It is private to its user, bounded in size, and never contains partial
// entries.
//
// <cache>/<op>-<key>/ contains a library and its manifest, and is published by a single rename().
// <cache>/locks/<op>-<key> is locked by the process that builds the entry. A process that uses a
// library holds a shared lock on the library's manifest.
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

/// Describes what a library was built from. Stored as a text file next to the library.
struct Manifest {
  std::string op;
  std::string content;  ///< Key::content
  std::string key;      ///< Key::key
  std::string sha256;   ///< digest of the library
  std::vector<ExternalFile> external = {};
  std::vector<std::pair<std::string, std::string>>
      parts;  ///< Key::content_parts and tool_parts, for error messages

  std::string text() const;
};
/// Returns nullopt if the text is not a complete manifest.
std::optional<Manifest> parse_manifest(const std::string& text);
inline constexpr const char* kManifestSuffix = ".manifest";

/// A library that is ready to be opened. The lock on its manifest prevents other processes from
/// removing it.
struct Held {
  std::filesystem::path library;
  Manifest manifest;
  FileLock use;
};

/// Locks `library` for use if its manifest is complete and its checksum matches. Otherwise returns
/// nullopt, and sets `problem` if the library exists but is defective. Used for both prebuilt and
/// cached libraries.
std::optional<Held> hold(const std::filesystem::path& library, std::string& problem);

/// An entry, for `anyaccel ops clean` and for eviction.
struct Entry {
  std::filesystem::path folder;
  std::int64_t bytes = 0;
  std::int64_t used = 0;  ///< time of the last load, in nanoseconds since the Unix epoch
};

class Cache {
 public:
  /// Returns the folder that ANYACCEL_OP_CACHE names. If it is unset, returns anyaccel/ops in
  /// XDG_CACHE_HOME or, if that is unset, in ~/.cache. If there is no home directory, returns a
  /// subdirectory of the temporary directory. Does not create the folder.
  ANYACCEL_API static std::filesystem::path default_folder();

  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Creates the folder with mode 0700. If the folder cannot be created or written to, belongs to
  /// another user, or has an untrusted path (base/trusted_path.h), throws `io` with a message that
  /// names the folder and suggests a fix.
  ANYACCEL_API void prepare() const;
  /// True if libraries in the folder may be opened (base/trusted_path.h).
  bool is_trusted() const noexcept;
  /// Returns the cache's folder for small files that may be deleted at any time. Returns an empty
  /// path if the folder is missing or other users can write to it, because they may have placed
  /// files or links there.
  ANYACCEL_API std::filesystem::path memo_folder() const noexcept;
  std::filesystem::path entry(const std::string& name) const { return folder_ / name; }
  std::filesystem::path lock_file(const std::string& name) const {
    return folder_ / "locks" / name;
  }

  /// True if other machines may use the cache, so that their locks may be invisible on this
  /// machine. ANYACCEL_OP_CACHE_SHARED decides or, if it is unset, the type of the file system. In
  /// a shared cache, entries used in the last 30 days are kept, and replaced entries are set aside
  /// for 30 days.
  ANYACCEL_API bool is_shared() const;
  /// Throws `io` if the folder is not writable or has too little space for a small build. Checks
  /// this by writing a temporary file.
  void require_room() const;

  /// Atomically moves the folder `from` to the entry `name`; only this user can access it. An
  /// existing entry is kept unless `replace` is true or the entry has no manifest. The caller must
  /// hold the lock file of `name`.
  void publish(const std::filesystem::path& from, const std::string& name, bool replace) const;

  std::vector<Entry> entries() const;
  /// Removes files that killed builders left behind, and the least recently used entries until at
  /// most `limit` bytes remain. Keeps the entry `keep`, and entries that are in use or being built.
  /// Returns the number of removed entries. Errors are ignored, because the cache is usable even if
  /// it cannot be cleaned.
  ANYACCEL_API int evict(std::int64_t limit, const std::string& keep = {}) const noexcept;

  /// Removes the entries of one op, or of all ops if `op` is empty, and the preferences set by
  /// prefer(). Returns how many entries were removed and how many were kept. An entry is kept if it
  /// is, or may be, in use. With `others_too`, entries that another machine may use are also
  /// removed.
  ANYACCEL_API std::pair<int, int> clean(const std::string& op, bool others_too = false) const;

  /// Makes the entry `name` take precedence over a prebuilt library with this content. Called after
  /// a forced build, for example because the prebuilt library could not be opened. Throws `io`.
  void prefer(const std::string& op, const std::string& content, const std::string& name) const;
  /// Returns the entry set by prefer(), or an empty string if there is none.
  std::string preferred(const std::string& op, const std::string& content) const;

  /// Returns ANYACCEL_OP_CACHE_SIZE (a number of bytes, optionally with the suffix K, M or G); 2G
  /// by default. Throws `invalid_argument`.
  static std::int64_t size_limit();

 private:
  bool try_remove(const Entry& entry, bool others_too) const;
  bool remove_entry(const std::filesystem::path& folder) const;
  std::filesystem::path folder_;
};

/// Returns 0 if `bytes` bytes can be written to a new file in the folder, otherwise errno. The file
/// is deleted afterwards.
int write_error(const std::filesystem::path& folder, std::size_t bytes) noexcept;

/// A temporary folder in the cache for one build. The destructor removes it. The owner holds a lock
/// on a file in it, so that other processes can detect abandoned folders.
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
