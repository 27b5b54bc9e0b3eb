#include "comm/shm/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include <utility>

#include "anyaccel/error.h"

namespace anyaccel::ops::shm {

namespace {

constexpr const char* kWhere = "shm_comm";
constexpr const char* kPrefix = "anyaccel-shm-";
constexpr time_t kLeftoverSeconds =
    60;  // files younger than this may not be locked yet, so they are kept
constexpr int kMaking =
    1 << 20;  // lock offset for the creator of a file, beyond those of the ranks

std::string mib(unsigned long long bytes) {
  return std::to_string((bytes + 1048575) / 1048576) + " MiB";
}

[[noreturn]] void too_small(const std::string& place, const std::string& got, std::size_t bytes) {
  throw Error(
      ErrorCode::unavailable, kWhere,
      {.what = "not enough shared memory in " + place,
       .got = got,
       .want = mib(bytes),
       .hint = "give the container more memory (--shm-size), remove old files there, or unset "
               "ANYACCEL_SHM_DIR"});
}

/// Closes the descriptor unless it has been released.
struct Descriptor {
  int number;
  explicit Descriptor(int descriptor) : number(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int release() { return std::exchange(number, -1); }
};

/// Allocates all pages immediately.
void allocate(int descriptor, const std::string& place, std::size_t bytes) {
  int error;
  do error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error != 0)
    too_small(place, "an allocation error (" + std::string(std::strerror(error)) + ")", bytes);
}

/// Returns the fcntl() lock that represents `place`. It is used as an open-file-description lock,
/// which is not released when this process closes another descriptor for the file.
struct flock place_lock(int place) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return lock;
}

std::string path_of(int descriptor) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
}

/// Creates an unnamed file in a local folder, or a named file if the file system does not support
/// unnamed ones.
int make_file(const std::string& folder, std::string& name) {
  struct statfs about {};
  if (::statfs(folder.c_str(), &about) != 0)
    throw Error(
        ErrorCode::unavailable, kWhere,
        {.what = "cannot access the shared-memory folder " + folder + ": " + std::strerror(errno)});
  if (!is_local(static_cast<unsigned long>(about.f_type))) {
    char type[20];
    std::snprintf(type, sizeof(type), "0x%lx",
                  static_cast<unsigned long>(about.f_type) & 0xffffffffUL);
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "shared memory cannot be on a network file system",
                 .got = folder + " (file system type " + type + ")",
                 .want = "a folder on a local file system such as tmpfs",
                 .hint = "set ANYACCEL_SHM_DIR to such a folder, or unset it"});
  }
  int made = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  name.clear();
  if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    name = folder + "/" + kPrefix + random_token();
    made =
        ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  }
  if (made < 0)
    throw Error(
        ErrorCode::io, kWhere,
        {.what = "cannot create a shared-memory file in " + folder + ": " + std::strerror(errno)});
  return made;
}

void check_space(int descriptor, const std::string& folder, std::size_t bytes) {
  struct statvfs mount {};
  if (::fstatvfs(descriptor, &mount) != 0) return;
  const auto free = static_cast<unsigned long long>(mount.f_bavail) * mount.f_frsize;
  // A mount without a size limit reports 0 blocks.
  if (mount.f_blocks != 0 && free < bytes) too_small(folder, mib(free) + " free", bytes);
}

}  // namespace

/// All shared memory of this process. A forked child releases what it inherited; otherwise its open
/// and mapped files would keep a dead parent's places locked.
struct LiveMemory {
  std::mutex mutex;
  std::set<Memory*> all;

  static LiveMemory& of_process() {
    static auto* const live = [] {
      auto* const made = new LiveMemory;  // never destroyed
      ::pthread_atfork([] { of_process().mutex.lock(); }, [] { of_process().mutex.unlock(); },
                       [] {
                         for (auto* const memory : of_process().all) {
                           ::munmap(std::exchange(memory->data_, nullptr), memory->bytes_);
                           ::close(std::exchange(memory->descriptor_, -1));
                           memory->named_ = false;
                         }
                         of_process().mutex.unlock();
                       });
      return made;
    }();
    return *live;
  }
  void add(Memory* memory) {
    const std::lock_guard lock(mutex);
    all.insert(memory);
  }
  void remove(Memory* memory) {
    const std::lock_guard lock(mutex);
    all.erase(memory);
  }
};

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
    throw Error(ErrorCode::io, kWhere,
                {.what = std::string("cannot get random numbers: ") + std::strerror(errno)});
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Memory::Memory(int descriptor, std::string path, std::size_t bytes, bool named)
    : descriptor_(descriptor), path_(std::move(path)), bytes_(bytes), named_(named) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    remove_name();
    ::close(descriptor);
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = std::string("cannot map shared memory: ") + std::strerror(error)});
  }
  data_ = data;
  LiveMemory::of_process().add(this);
}

Memory::Memory(Memory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      bytes_(other.bytes_),
      named_(std::exchange(other.named_, false)),
      data_(std::exchange(other.data_, nullptr)) {
  LiveMemory::of_process().add(this);
}

Memory::~Memory() {
  LiveMemory::of_process().remove(this);
  remove_name();
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Memory::remove_name() noexcept {
  if (named_) ::unlink(path_.c_str());
  named_ = false;
}

void Memory::share_name() noexcept { named_ = path_.rfind("/proc/", 0) != 0; }

Memory Memory::anonymous(std::size_t bytes) {
  Descriptor made(::memfd_create("anyaccel-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (made.number < 0 || ::fchmod(made.number, S_IRUSR | S_IWUSR) != 0)
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = std::string("cannot create anonymous memory: ") + std::strerror(errno)});
  allocate(made.number, "this container or machine", bytes);
  ::fcntl(made.number, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  auto path = path_of(made.number);
  return {made.release(), std::move(path), bytes, false};
}

Memory Memory::in_folder(const std::string& folder, std::size_t bytes) {
  std::string name;
  Descriptor made(make_file(folder, name));
  if (!name.empty()) ::unlink(name.c_str());
  check_space(made.number, folder, bytes);
  allocate(made.number, folder, bytes);
  auto path = path_of(made.number);
  return {made.release(), std::move(path), bytes, false};
}

Memory Memory::file(const std::string& folder, std::size_t bytes) {
  remove_leftovers(folder);
  std::string path;
  Descriptor made(make_file(folder, path));
  try {
    // Lock the file before it gets its name, so that no process removes it as a leftover.
    auto lock = place_lock(kMaking);
    if (::fcntl(made.number, F_OFD_SETLK, &lock) != 0)
      throw Error(
          ErrorCode::unavailable, kWhere,
          {.what = std::string("cannot lock the shared-memory file: ") + std::strerror(errno)});
    check_space(made.number, folder, bytes);
    allocate(made.number, folder, bytes);
    if (path.empty()) {
      const auto name = folder + "/" + kPrefix + random_token();
      const auto self = "/proc/self/fd/" + std::to_string(made.number);
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
        throw Error(
            ErrorCode::io, kWhere,
            {.what = "cannot create the shared-memory file " + name + ": " + std::strerror(errno)});
      path = name;
    }
  } catch (...) {
    if (!path.empty()) ::unlink(path.c_str());
    throw;
  }
  return {made.release(), path, bytes, true};
}

Memory Memory::open(const std::string& path, std::size_t bytes) {
  const auto fail = [&](const std::string& got) {
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = "cannot open another rank's memory: " + got});
  };
  Descriptor made(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (made.number < 0) fail(path + ": " + std::strerror(errno));
  struct stat about {};
  if (::fstat(made.number, &about) != 0) fail(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) fail(path + " is not shared memory");
  if (about.st_uid != ::geteuid()) fail(path + " belongs to user " + std::to_string(about.st_uid));
  if ((about.st_mode & 07777) != (S_IRUSR | S_IWUSR)) fail(path + " is accessible to other users");
  if (static_cast<unsigned long long>(about.st_size) != bytes) fail(path + " has the wrong size");
  return {made.release(), path, bytes, false};
}

// The system releases the lock when the process exits, so a reused PID cannot hold it. The lock is
// also visible from other PID namespaces.
void Memory::hold(int place) const {
  auto lock = place_lock(place);
  if (::fcntl(descriptor_, F_OFD_SETLK, &lock) != 0)
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = std::string("cannot lock the rank's slot: ") + std::strerror(errno)});
}

bool Memory::held_by_another(int place) const noexcept {
  auto lock = place_lock(place);
  // If the query fails, assume that the rank is alive.
  return ::fcntl(descriptor_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void remove_leftovers(const std::string& folder) noexcept {
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const auto* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, kPrefix, std::strlen(kPrefix)) != 0) continue;
    struct stat about {};
    const int folder_number = ::dirfd(entries);
    if (::fstatat(folder_number, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(about.st_mode) || about.st_uid != ::geteuid() ||
        std::time(nullptr) - about.st_mtime < kLeftoverSeconds)
      continue;
    const Descriptor file(::openat(folder_number, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct flock lock {};
    lock.l_type = F_WRLCK;  // covers the whole file
    if (file.number >= 0 && ::fcntl(file.number, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
      ::unlinkat(folder_number, entry->d_name, 0);
  }
  ::closedir(entries);
}

bool is_local(unsigned long type) noexcept {
  switch (type & 0xffffffffUL) {
    case 0x01021994:  // tmpfs
    case 0x858458f6:  // ramfs
    case 0x958458f6:  // hugetlbfs
    case 0xef53:      // ext2, ext3, ext4
    case 0x58465342:  // xfs
    case 0x9123683e:  // btrfs
    case 0xf2f52010:  // f2fs
    case 0xca451a4e:  // bcachefs
    case 0x2fc12fc1:  // zfs
    case 0x794c7630:  // overlayfs, whose upper directory cannot be on NFS
      return true;
    default: return false;
  }
}

}  // namespace anyaccel::ops::shm
