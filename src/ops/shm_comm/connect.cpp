// How ranks come to share memory.
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

#include "anyaccel/error.h"
#include "communicator.h"
#include "layout.h"

namespace anyaccel::ops::shm {

namespace {

constexpr std::size_t kChunk = 128 * 1024;  // a few of them stay in a core's second cache
constexpr const char* kYes = "yes";

std::string cut(std::string text) {
  if (text.size() > kMostText) text.resize(kMostText);
  return text;
}

/// One kind of memory tried by all ranks. `folder`: empty for memory without a name.
Connected attempt(const Options& options, const Exchange& exchange, const std::string& folder) {
  const auto bytes = bytes_for(options);
  std::shared_ptr<Memory> memory;
  std::string offer;
  std::string problem;
  if (options.rank == 0) {
    try {
      memory = std::make_shared<Memory>(folder.empty() ? Memory::anonymous(bytes) : Memory::file(folder, bytes));
      const auto token = random_token();
      prepare(memory->data(), options, token);
      offer = "memory " + token + " " + std::to_string(bytes) + " " + memory->path();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  const auto first = exchange(problem.empty() ? offer : cut(problem)).at(0);
  std::istringstream words(first);
  std::string kind;
  std::string token;
  std::string path;
  std::size_t offered = 0;
  if (!(words >> kind >> token >> offered >> std::ws && std::getline(words, path)) || kind != "memory")
    return {nullptr, first};

  std::unique_ptr<Communicator> made;
  try {
    if (offered != bytes)
      throw Error(ErrorCode::invalid_argument, "shm_comm",
                  {.what = "ranks ask for groups of different shape",
                   .got = std::to_string(bytes) + " bytes",
                   .want = std::to_string(offered)});
    if (options.rank != 0) {
      memory = std::make_shared<Memory>(Memory::open(path, bytes));
      // Another machine may have a process of that number with an open file of that number.
      if (!has_token(memory->data(), token))
        throw Error(ErrorCode::unavailable, "shm_comm", {.what = "what rank 0 offers is not on this node"});
    }
    made = std::make_unique<Communicator>(memory, options);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const auto answers = exchange(made ? kYes : cut(problem));
  if (options.rank == 0) memory->remove_name();  // all that will ever map it have
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    if (answers[rank] != kYes) return {nullptr, "rank " + std::to_string(rank) + ": " + answers[rank]};
  return {std::move(made), ""};
}

}  // namespace

std::size_t chunk_bytes_of(const Options& options) {
  auto bytes = options.chunk_bytes;
  if (bytes == 0) {
    const char* const text = std::getenv("ANYACCEL_SHM_CHUNK_KB");
    const auto wanted = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
    bytes = wanted >= 1 && wanted <= (1UL << 20) ? wanted * 1024 : kChunk;
  }
  // Every rank has at least a cache line of it in reduce_scatter.
  const auto least = static_cast<std::size_t>(options.size) * 64;
  return (std::max(bytes, least) + 4095) / 4096 * 4096;
}

std::size_t slots_offset(int size) {
  const auto used = kLine + static_cast<std::size_t>(size) * place_bytes();
  return (used + 4095) / 4096 * 4096;
}

std::size_t bytes_for(const Options& options) {
  return slots_offset(options.size) + static_cast<std::size_t>(options.size) * kSlots * chunk_bytes_of(options);
}

void prepare(void* memory, const Options& /*options*/, const std::string& token) {
  std::memcpy(memory, token.data(), std::min<std::size_t>(token.size(), 32));  // all else begins as zero
}

bool has_token(const void* memory, const std::string& token) noexcept {
  return token.size() == 32 && std::memcmp(memory, token.data(), token.size()) == 0;
}

Connected connect(const Options& options, const Exchange& exchange) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorCode::invalid_argument, "shm_comm",
                {.what = "no such rank",
                 .got = "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size)});
  const char* const folder = std::getenv("ANYACCEL_SHM_DIR");
  if (folder != nullptr && *folder != '\0') return attempt(options, exchange, folder);
  auto nameless = attempt(options, exchange, "");
  if (nameless.communicator) return nameless;
  // Ranks in different containers of one node may share a mount and nothing else.
  auto named = attempt(options, exchange, "/dev/shm");
  if (!named.communicator) named.reason = nameless.reason + "; with a file in /dev/shm: " + named.reason;
  return named;
}

}  // namespace anyaccel::ops::shm
