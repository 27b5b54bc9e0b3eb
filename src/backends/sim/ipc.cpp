#include "backends/sim/ipc.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "anyaccel/error.h"
#include "backends/sim/allocator.h"
#include "backends/sim/fork.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/page_size.h"
#include "backends/sim/register.h"
#include "base/untrusted_text.h"

#include <fcntl.h>

namespace anyaccel::backends::sim {

namespace {

using Counter = std::atomic<std::int64_t>;
static_assert(Counter::is_always_lock_free, "the counters are shared between processes");

constexpr std::size_t kCounters = kIpcBytes / sizeof(Counter);

[[noreturn]] void fail(const std::string& what, const std::string& got = {},
                       const std::string& hint = {}) {
  throw Error(ErrorCode::unavailable, "sim", {.what = what, .got = got, .hint = hint});
}

std::string with_reason(const std::string& what) { return what + ": " + std::strerror(errno); }

/// Counters of uses by other processes, for the blocks that this process shares. Stored at the end
/// of its memory file. A forked child has a new file, so it starts without shared blocks.
class Counters {
 public:
  /// Returns the block's counter, which the first call assigns, or null if the block was inherited.
  Counter* take(Block& block) {
    const std::lock_guard lock(mutex_);
    if (block.shared < 0) {
      map_once();
      if (free_.empty() && next_ == static_cast<int>(kCounters))
        fail("too many blocks of device memory are shared with other processes",
             std::to_string(kCounters), "free tensors that were sent");
      block.shared_by = owner_;
      block.shared = free_.empty() ? next_++ : free_.back();
      if (!free_.empty()) free_.pop_back();
      counters_[block.shared].store(0);
    }
    return find(block);
  }
  void give_back(Block& block) {
    const std::lock_guard lock(mutex_);
    if (find(block) != nullptr) free_.push_back(block.shared);
    block.shared = -1;
  }
  Counter* find(const Block& block) const noexcept {
    return ours() && block.shared_by == owner_ ? counters_ + block.shared : nullptr;
  }

 private:
  bool ours() const noexcept { return owner_ == ::getpid(); }
  void map_once() {
    if (ours()) return;
    if (memory_map.file < 0) fail("this process cannot share device memory");
    void* address =
        ::mmap(nullptr, kIpcBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_map.file,
               static_cast<off_t>(memory_map.slice * static_cast<std::size_t>(memory_map.devices)));
    if (address == MAP_FAILED) fail(with_reason("cannot share device memory"));
    counters_ = static_cast<Counter*>(address);
    free_.clear();
    next_ = 0;
    owner_ = ::getpid();
  }

  HeldAtFork mutex_{ForkOrder::inner};
  std::atomic<pid_t> owner_{0};
  Counter* counters_ = nullptr;
  std::vector<int> free_;
  int next_ = 0;
};

Counters& counters() noexcept {
  static auto* instance = new Counters;
  return *instance;
}

struct Handle {
  std::uint64_t pid = 0, file = 0, inode = 0;  ///< identify the memory file of the process
  std::uint64_t begin = 0, bytes = 0;          ///< offset in the file, and size
  std::uint64_t counter = 0;                   ///< offset of the counter in the file
};

std::string text(const Handle& handle) {
  std::string result = "sim";
  for (const auto number :
       {handle.pid, handle.file, handle.inode, handle.begin, handle.bytes, handle.counter})
    result += ":" + std::to_string(number);
  return result;
}

Handle parse(const std::string& handle) {
  std::array<std::uint64_t, 6> numbers{};
  const char* at = handle.data();
  const char* const end = at + handle.size();
  bool valid = handle.starts_with("sim");
  if (valid) at += 3;
  for (auto& number : numbers) {
    valid = valid && at != end && *at++ == ':';
    if (!valid) break;
    const auto [stop, error] = std::from_chars(at, end, number);
    valid = error == std::errc();
    at = stop;
  }
  const auto& [pid, file, inode, begin, bytes, counter] = numbers;
  if (!valid || at != end || bytes == 0 || bytes > (1ULL << 48) || begin > (1ULL << 48) ||
      counter > (1ULL << 48) || counter % sizeof(Counter) != 0)
    throw Error(ErrorCode::invalid_argument, "sim",
                {.what = "invalid handle of shared device memory",
                 .got = quoted_text(handle),
                 .want = "a handle that share() returned in another process"});
  return {pid, file, inode, begin, bytes, counter};
}

class File {
 public:
  explicit File(const Handle& handle) {
    const auto path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.file);
    file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat facts = {};
    if (file_ >= 0 && ::fstat(file_, &facts) == 0 && facts.st_ino == handle.inode &&
        static_cast<std::uint64_t>(facts.st_size) >=
            std::max(handle.begin + handle.bytes, handle.counter + sizeof(Counter)))
      return;
    const bool ended = file_ >= 0 || errno == ENOENT;
    const auto reason = ended ? std::string("the process has exited or has freed the memory")
                              : std::string(std::strerror(errno));
    if (file_ >= 0) ::close(file_);
    fail("cannot open device memory of another process: " + reason,
         "process " + std::to_string(handle.pid),
         "keep the sending process running until the receiver has the tensor");
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const noexcept { return file_; }

 private:
  int file_;
};

/// Memory from another process, mapped into this one.
struct Opened {
  DeviceMemory* memory = nullptr;
  char* begin = nullptr;
  std::size_t length = 0;
  void* counter_page = nullptr;
  Counter* counter = nullptr;
  pid_t owner = ::getpid();

  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (owner != ::getpid()) return;  // a forked child has inherited it; the parent ends the use
    if (length != 0) unmap_foreign(begin, length);
    if (begin != nullptr) memory->give_addresses_back(begin);
    if (counter != nullptr) counter->fetch_sub(1);
    if (counter_page != nullptr) ::munmap(counter_page, page_size());
  }

  void map_counter(int file, std::size_t offset) {
    counter_page = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, file,
                          static_cast<off_t>(offset / page_size() * page_size()));
    if (counter_page == MAP_FAILED) {
      counter_page = nullptr;
      fail(with_reason("cannot map the counter of shared device memory"));
    }
    counter = reinterpret_cast<Counter*>(static_cast<char*>(counter_page) + offset % page_size());
  }
};

/// Holds the memory until the stream reaches this task.
class HoldTask final : public Task {
 public:
  explicit HoldTask(std::shared_ptr<Opened> opened)
      : Task("ipc.close", false), opened_(std::move(opened)) {}
  void run(bool /*again*/) override {}

 private:
  std::shared_ptr<Opened> opened_;
};

void close_opened(void* context) {
  const std::shared_ptr<Opened> opened(static_cast<Opened*>(context));
  if (opened->owner != ::getpid()) return;
  // Do not wait here: a worker may need the interpreter's lock, which this thread may hold.
  for (const auto& device : runtime().devices)
    for (const auto& stream : device->streams)
      if (!stream->idle() && stream->capture() == nullptr)
        stream->submit(std::make_unique<HoldTask>(opened));
}

}  // namespace

std::string share(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  TORCH_CHECK(on_device(tensor),
              "[sim] only tensors in device memory can be shared, but this one "
              "is on ",
              tensor.device());
  TORCH_CHECK(storage.data_ptr().get_deleter() != &close_opened,
              "[sim] a tensor that was received from another process cannot be sent; send a "
              "clone() of it");
  auto* block = block_of(storage.data_ptr());
  TORCH_CHECK(block != nullptr, "[sim] the tensor has no memory that can be shared");
  check_not_forked();
  struct stat facts = {};
  auto* counter = counters().take(*block);
  TORCH_CHECK(counter != nullptr && ::fstat(memory_map.file, &facts) == 0,
              "[sim] the tensor belongs to the parent process; only that process can share it");
  counter->fetch_add(1);
  const auto counters_begin = memory_map.slice * static_cast<std::size_t>(memory_map.devices);
  return text(
      {.pid = static_cast<std::uint64_t>(::getpid()),
       .file = static_cast<std::uint64_t>(memory_map.file),
       .inode = facts.st_ino,
       .begin = static_cast<std::uint64_t>(block->address - memory_map.base),
       .bytes = storage.nbytes(),
       .counter = counters_begin + static_cast<std::uint64_t>(block->shared) * sizeof(Counter)});
}

at::Tensor open_shared(const std::string& handle, int device) {
  const auto parsed = parse(handle);
  check_not_forked();
  auto& target = device_at(device);
  const File file(parsed);
  auto opened = std::make_unique<Opened>();
  opened->map_counter(file.number(), parsed.counter);
  const auto lead = parsed.begin % page_size();
  const auto length = round_up_to_pages(lead + parsed.bytes);
  opened->memory = target.memory.get();
  opened->begin = opened->memory->take_addresses(length);
  map_foreign(opened->begin, length, file.number(), parsed.begin - lead);
  opened->length = length;
  void* address = opened->begin + lead;
  auto storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), parsed.bytes,
      c10::DataPtr(address, opened.release(), &close_opened, runtime().device(device)),
      /*allocator=*/nullptr, /*resizable=*/false));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), runtime().keys,
                                                         caffe2::TypeMeta::Make<std::uint8_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<std::int64_t>(parsed.bytes)});
  return tensor;
}

void release_shared(const std::string& handle) {
  const auto parsed = parse(handle);
  const File file(parsed);
  Opened opened;
  opened.map_counter(file.number(), parsed.counter);
}

bool used_by_others(const Block& block) noexcept {
  const auto* counter = counters().find(block);
  return counter != nullptr && counter->load() > 0;
}

void end_sharing(Block& block) noexcept { counters().give_back(block); }

void register_ipc() {
  // Torch's Python code calls these as torch.ops.anyaccel_sim.NAME.
  static auto* library = new torch::Library(torch::Library::DEF, "anyaccel_sim", std::nullopt,
                                            __FILE__, static_cast<std::uint32_t>(__LINE__));
  library->def("share(Tensor tensor) -> str", &share);
  library->def("open(str handle, int device) -> Tensor",
               [](const std::string& handle, std::int64_t device) {
                 return open_shared(handle, static_cast<int>(device));
               });
  library->def("release(str handle) -> ()",
               [](const std::string& handle) { release_shared(handle); });
  library->def("uuid(int device) -> str", [](std::int64_t device) {
    return device_uuid(device_at(static_cast<int>(device)).physical);
  });
  library->def("collect() -> ()", [] {
    for (const auto& device : runtime().devices) device->memory->collect_shared();
  });
}

}  // namespace anyaccel::backends::sim
