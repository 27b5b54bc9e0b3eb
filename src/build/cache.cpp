#include "build/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/trusted_path.h"
#include "build/cache_paths.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHint =
    "set ANYACCEL_OP_CACHE to a folder of your own on a disk with free space";

[[noreturn]] void fail(const fs::path& folder, const std::string& what, int error = 0) {
  throw Error(ErrorCode::io, "op cache",
              {.what = "the op cache " + folder.string() + " " + what +
                       (error == 0 ? "" : std::string(": ") + std::strerror(error)),
               .hint = kHint});
}

void make_folder(const fs::path& folder, const fs::path& cache) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return;
  fail(cache, "cannot be created", errno);
}

/// Like make_folder(), but also creates missing parents. New folders get at most mode 0700,
/// regardless of the umask.
void make_parents(const fs::path& folder, const fs::path& cache) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return;
  make_parents(folder.parent_path(), cache);
  make_folder(folder, cache);
}

/// True for `<op>-<first 24 hexadecimal digits of the key>`. Other names in the cache folder are
/// ignored.
bool is_entry(const std::string& name) {
  const auto dash = name.rfind('-');
  return dash != std::string::npos && dash > 0 && name.front() != '.' &&
         name.size() - dash - 1 == 24 &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == std::string::npos;
}

void flush(const fs::path& path, const fs::path& cache) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int failed = descriptor < 0 ? errno : (::fsync(descriptor) == 0 ? 0 : errno);
  if (descriptor >= 0) ::close(descriptor);
  // Ignore EINVAL and EROFS, which some file systems return because they cannot flush a folder.
  if (failed != 0 && failed != EINVAL && failed != EROFS)
    fail(cache, "cannot be written to", failed);
}

/// If other machines may use the cache, entries used within this period are kept.
constexpr std::chrono::hours kOthersKeep{30 * 24};

std::int64_t since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::int64_t last_use(const fs::path& folder) {
  struct stat info {};
  for (const auto& file : manifests(folder))
    if (::stat(file.c_str(), &info) == 0)
      return info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  return 0;
}

}  // namespace

std::vector<fs::path> manifests(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored))
    if (file.path().string().ends_with(kManifestSuffix)) out.push_back(file.path());
  return out;
}

fs::path Cache::default_folder() {
  if (const auto named = env("ANYACCEL_OP_CACHE")) return fs::absolute(*named).lexically_normal();
  if (const auto base = env("XDG_CACHE_HOME"); base && base->front() == '/')
    return fs::path(*base) / "anyaccel" / "ops";
  if (const auto home = env("HOME"); home && home->front() == '/')
    return fs::path(*home) / ".cache" / "anyaccel" / "ops";
  return fs::temp_directory_path() / ("anyaccel-ops-" + std::to_string(::geteuid()));
}

void Cache::prepare() const {
  const auto require_trust = [&](TrustedKind kind) {
    if (const auto problem = trust_problem(folder_, kind); !problem.empty())
      fail(folder_, "cannot be trusted: " + problem);
  };
  // Do not create anything in a folder where other users can place links.
  require_trust(TrustedKind::future_folder);
  make_parents(folder_.parent_path(), folder_);
  make_folder(folder_, folder_);
  struct stat info {};
  if (::stat(folder_.c_str(), &info) != 0) fail(folder_, "cannot be read", errno);
  if (S_ISDIR(info.st_mode) && info.st_uid != ::geteuid())
    fail(folder_, "belongs to user " + std::to_string(info.st_uid) +
                      ", who could change what this process runs");
  require_trust(TrustedKind::folder);
  make_folder(folder_ / "locks", folder_);
  make_folder(folder_ / "memo", folder_);
}

fs::path Cache::memo_folder() const noexcept try {
  auto memo = folder_ / "memo";
  struct stat info {};
  if (::lstat(memo.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
    return {};
  return trust_problem(memo, TrustedKind::folder).empty() ? memo : fs::path();
} catch (...) {
  return {};
}

bool Cache::is_trusted() const noexcept {
  return trust_problem(folder_, TrustedKind::folder).empty();
}

bool Cache::is_shared() const {
  if (env("ANYACCEL_OP_CACHE_SHARED")) return env_flag("ANYACCEL_OP_CACHE_SHARED");
  struct statfs info {};
  if (::statfs(folder_.c_str(), &info) != 0) return false;
  // File system types (statfs::f_type) of nfs, smb, cifs, smb2, lustre, gpfs, ceph, beegfs, afs,
  // 9p, ocfs2, gfs2, coda and fuse (sshfs, glusterfs and others), from linux/magic.h and the
  // sources of the file systems.
  constexpr std::array<std::uint32_t, 14> kShared{
      0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x0bd00bd0, 0x47504653, 0x00c36400,
      0x19830326, 0x5346414f, 0x01021997, 0x7461636f, 0x01161970, 0x73757245, 0x65735546};
  return std::find(kShared.begin(), kShared.end(), static_cast<std::uint32_t>(info.f_type)) !=
         kShared.end();
}

void Cache::require_room() const {
  constexpr std::size_t kSmallBuild = 1 << 20;
  if (const int error = write_error(folder_, kSmallBuild); error != 0)
    fail(folder_, "cannot be written to", error);
}

int write_error(const fs::path& folder, std::size_t bytes) noexcept try {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    auto name = (folder / (std::string(kTrash) + "XXXXXX")).string();
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(name.c_str());
  }
  if (descriptor < 0) return errno;
  const std::string block(1 << 16, 'x');
  int error = 0;
  for (std::size_t done = 0; done < bytes && error == 0;) {
    const auto count = ::write(descriptor, block.data(), std::min(block.size(), bytes - done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      error = count == 0 ? ENOSPC : errno;
    else
      done += static_cast<std::size_t>(count);
  }
  // A network file system may report a full disk only in fsync().
  if (error == 0 && ::fsync(descriptor) != 0 && errno != EINVAL) error = errno;
  ::close(descriptor);
  return error;
} catch (...) {
  return ENOMEM;
}

void Cache::prefer(const std::string& op, const std::string& content,
                   const std::string& name) const {
  make_folder(folder_ / kPreferred, folder_);
  write_file_atomically(folder_ / kPreferred / (op + "-" + content.substr(0, 24)), name + "\n");
}

std::string Cache::preferred(const std::string& op, const std::string& content) const {
  if (!is_trusted()) return {};
  auto name = try_read_file(folder_ / kPreferred / (op + "-" + content.substr(0, 24))).value_or("");
  if (!name.ends_with('\n')) return {};
  name.pop_back();
  return is_entry(name) && name.starts_with(op + "-") ? name : std::string();
}

void Cache::publish(const fs::path& from, const std::string& name, bool replace) const {
  for (const auto& file : fs::directory_iterator(from)) {
    if (::chmod(file.path().c_str(), 0600) != 0) fail(folder_, "cannot be written to", errno);
    flush(file.path(), folder_);
  }
  flush(from, folder_);
  const auto to = entry(name);
  // Move the old entry to a name that no process looks up.
  std::error_code ignored;
  if (fs::exists(to, ignored) && (replace || manifests(to).empty())) {
    if (!is_shared()) {
      remove_entry(to);
    } else {
      // Another machine may have the library open. An open file remains valid after a rename.
      const auto aside =
          folder_ / (kAside + std::to_string(::getpid()) + "-" +
                     std::to_string(since_1970(std::chrono::system_clock::now())) + "-" + name);
      fs::rename(to, aside, ignored);
      static_cast<void>(::utimensat(AT_FDCWD, aside.c_str(), nullptr, 0));
    }
  }
  if (::rename(from.c_str(), to.c_str()) != 0 && errno != EEXIST && errno != ENOTEMPTY)
    fail(folder_, "cannot be written to", errno);
  flush(folder_, folder_);
}

std::vector<Entry> Cache::entries() const {
  std::vector<Entry> out;
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(folder_, ignored)) {
    if (!is_entry(item.path().filename().string())) continue;
    Entry entry{.folder = item.path(), .used = last_use(item.path())};
    for (const auto& file : fs::directory_iterator(item.path(), ignored)) {
      const auto size = file.file_size(ignored);
      if (!ignored) entry.bytes += static_cast<std::int64_t>(size);
    }
    out.push_back(std::move(entry));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  return out;
}

bool Cache::remove_entry(const fs::path& folder) const {
  // Rename first, so that no process finds a partly deleted entry.
  const auto aside =
      folder_ / (kTrash + std::to_string(::getpid()) + "-" + folder.filename().string());
  std::error_code error;
  fs::rename(folder, aside, error);
  if (error) return false;
  fs::remove_all(aside, error);
  return true;
}

bool Cache::try_remove(const Entry& entry, bool others_too) const {
  std::error_code ignored;
  const auto recent = since_1970(std::chrono::system_clock::now() - kOthersKeep);
  if (!others_too && entry.used > recent && is_shared()) return false;
  const auto builder = lock_file(entry.folder.filename().string());
  // Hold the lock during the removal, so that other processes find either the complete entry or
  // none.
  const auto lock = FileLock::try_exclusive(builder);
  if (!lock && fs::exists(builder, ignored)) return false;
  const auto files = manifests(entry.folder);
  const auto use = files.empty() ? FileLock() : FileLock::try_exclusive(files.front());
  // An entry without a manifest cannot be in use, so it needs no lock.
  if ((!use && !files.empty()) || !remove_entry(entry.folder)) return false;
  fs::remove(builder, ignored);
  return true;
}

std::pair<int, int> Cache::clean(const std::string& op, bool others_too) const {
  std::pair<int, int> out{0, 0};
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(folder_ / kPreferred, ignored)) {
    const auto name = item.path().filename().string();
    if (op.empty() || name.substr(0, name.rfind('-')) == op) fs::remove(item.path(), ignored);
  }
  for (const auto& entry : entries()) {
    const auto name = entry.folder.filename().string();
    if (!op.empty() && name.substr(0, name.rfind('-')) != op) continue;
    ++(try_remove(entry, others_too) ? out.first : out.second);
  }
  return out;
}

int Cache::evict(std::int64_t limit, const std::string& keep) const noexcept try {
  std::error_code ignored;
  const bool shared = is_shared();
  for (const auto& item : fs::directory_iterator(folder_, ignored)) {
    const auto name = item.path().filename().string();
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(item.path(), ignored);
    if (ignored) continue;
    // If a folder still has no owner file after an hour, it is abandoned: its builder was killed
    // before it took the lock.
    const bool ownerless =
        !fs::exists(item.path() / kOwner, ignored) && age > std::chrono::hours(1);
    // On a shared file system, locks held by other machines may be invisible. Treat the folder as
    // abandoned only after a day, which is longer than any build takes.
    const bool left = name.starts_with(kPrivate) && (!shared || age > std::chrono::hours(24)) &&
                      (ownerless || FileLock::try_exclusive(item.path() / kOwner));
    const bool old = name.starts_with(kAside) && (!shared || age > kOthersKeep);
    if (left || old || name.starts_with(kTrash)) fs::remove_all(item.path(), ignored);
  }
  auto all = entries();
  std::int64_t sum = 0;
  for (const auto& entry : all) sum += entry.bytes;
  int removed = 0;
  for (const auto& entry : all) {
    if (sum <= limit) break;
    if (entry.folder.filename() == keep || !try_remove(entry, false)) continue;
    sum -= entry.bytes;
    ++removed;
  }
  return removed;
} catch (...) {
  return 0;
}

std::int64_t Cache::size_limit() {
  return env_bytes("ANYACCEL_OP_CACHE_SIZE").value_or(std::int64_t{2} << 30);
}

PrivateFolder::PrivateFolder(const fs::path& cache) {
  std::string name = (cache / (std::string(kPrivate) + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) fail(cache, "cannot be written to", errno);
  path_ = name;
  // The file gets its final name only after it is locked. Otherwise, another process could lock it
  // and would treat the folder as abandoned.
  lock_ = FileLock::exclusive(path_ / "locking", [](const auto&) {});
  std::error_code error;
  fs::rename(path_ / "locking", path_ / kOwner, error);
  if (error) fail(cache, "cannot be written to", error.value());
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace anyaccel::build
