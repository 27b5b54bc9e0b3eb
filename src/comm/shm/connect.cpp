// Setup of shared memory between ranks.
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <vector>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"
#include "comm/shm/layout.h"

namespace anyaccel::ops::shm {

namespace {

constexpr std::size_t kChunk =
    std::size_t{128} * 1024;  // several chunks of this size fit in a core's L2 cache
constexpr const char* kYes = "yes";

std::string cut(std::string text) {
  if (text.size() > kMaxText) text.resize(kMaxText);
  return text;
}

/// A possible location of shared memory. candidates() lists the best one first.
struct Candidate {
  std::string folder;  // empty for anonymous memory
  // Whether the file has a name. Ranks in other containers need a name, because they cannot open
  // the file through rank 0's /proc entry.
  bool named;
};

std::vector<Candidate> candidates() {
  const char* const folder = std::getenv("ANYACCEL_SHM_DIR");
  if (folder != nullptr && *folder != '\0') return {{folder, false}, {folder, true}};
  return {{"", false}, {"/dev/shm", true}};
}

/// Rank 0's offer: memory, or the reason why it has none, and whether it will try again. All ranks
/// accept it, regardless of their own environment variables.
struct Offer {
  std::string kind;  // "memory", "none", or "refused" if the user chose an invalid folder
  bool more = false;
  std::string token;
  std::size_t bytes = 0;
  std::string text;  // path of the memory, or the reason

  std::string packed() const {
    return kind + (more ? " 1 " : " 0 ") + (token.empty() ? "-" : token) + " " +
           std::to_string(bytes) + " " + text;
  }
  static Offer unpacked(const std::string& packed) {
    Offer offer;
    std::istringstream words(packed);
    if (!(words >> offer.kind >> offer.more >> offer.token >> offer.bytes >> std::ws &&
          std::getline(words, offer.text)))
      return {.kind = "none", .text = "rank 0 made no offer"};
    return offer;
  }
};

Offer make_offer(const Candidate& candidate, const Options& options,
                 std::shared_ptr<Memory>& memory) {
  const auto bytes = bytes_for(options);
  try {
    memory =
        std::make_shared<Memory>(candidate.folder.empty() ? Memory::anonymous(bytes)
                                 : candidate.named        ? Memory::file(candidate.folder, bytes)
                                                   : Memory::in_folder(candidate.folder, bytes));
    const auto token = random_token();
    prepare(memory->data(), options, token);
    if (memory->path().size() > kMaxPath)
      return {.kind = "none", .text = "the path of the shared-memory folder is too long"};
    return {.kind = "memory", .token = token, .bytes = bytes, .text = memory->path()};
  } catch (const Error& error) {
    return {.kind = error.code() == ErrorCode::invalid_argument ? "refused" : "none",
            .text = error.what()};
  } catch (const std::exception& error) {
    return {.kind = "none", .text = error.what()};
  }
}

/// Opens the memory that rank 0 offers and takes this rank's place in it. On rank 0, `memory` is
/// already open; on other ranks, this function sets it.
std::unique_ptr<Communicator> take(const Offer& offer, const Options& options,
                                   std::shared_ptr<Memory>& memory) {
  const auto bytes = bytes_for(options);
  if (offer.bytes != bytes)
    throw Error(ErrorCode::invalid_argument, "shm_comm",
                {.what = "ranks have different group or chunk sizes",
                 .got = std::to_string(bytes) + " bytes",
                 .want = std::to_string(offer.bytes) + " bytes"});
  if (options.rank != 0) {
    memory = std::make_shared<Memory>(Memory::open(offer.text, bytes));
    // On a different machine, this path may refer to a different file: both the PID and the
    // descriptor number may be in use there.
    if (!has_token(memory->data(), offer.token))
      throw Error(ErrorCode::unavailable, "shm_comm",
                  {.what = "the memory of rank 0 is not on this node"});
    memory->share_name();
  }
  return std::make_unique<Communicator>(memory, options);
}

/// Returns a communicator if every rank has taken its place, otherwise the reason reported by the
/// first rank that failed.
Connected agree(const Offer& offer, const Options& options, std::shared_ptr<Memory>& memory,
                const Exchange& exchange) {
  std::unique_ptr<Communicator> made;
  std::string problem;
  try {
    made = take(offer, options, memory);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const auto answers = exchange(made ? kYes : cut(problem));
  if (memory) memory->remove_name();  // all ranks that need the name have opened the memory
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    if (answers[rank] != kYes)
      return {nullptr, "rank " + std::to_string(rank) + ": " + answers[rank]};
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
  // In reduce_scatter, each rank needs at least one cache line in a chunk.
  const auto least = static_cast<std::size_t>(options.size) * 64;
  return (std::max(bytes, least) + 4095) / 4096 * 4096;
}

std::size_t slots_offset(int size) {
  const auto used = kLine + static_cast<std::size_t>(size) * place_bytes();
  return (used + 4095) / 4096 * 4096;
}

std::size_t bytes_for(const Options& options) {
  return slots_offset(options.size) +
         static_cast<std::size_t>(options.size) * kSlots * chunk_bytes_of(options);
}

void prepare(void* memory, const Options& /*options*/, const std::string& token) {
  std::memcpy(memory, token.data(),
              std::min<std::size_t>(token.size(), 32));  // the rest of the memory is already zero
}

bool has_token(const void* memory, const std::string& token) noexcept {
  return token.size() == 32 && std::memcmp(memory, token.data(), token.size()) == 0;
}

Connected connect(const Options& options, const Exchange& exchange) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(
        ErrorCode::invalid_argument, "shm_comm",
        {.what = "the rank is out of range",
         .got = "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size)});
  if (options.size > kMaxRanks)
    throw Error(ErrorCode::unsupported, "shm_comm",
                {.what = "the group is too large",
                 .got = std::to_string(options.size) + " ranks",
                 .want = "at most " + std::to_string(kMaxRanks) + " ranks"});
  const auto kinds = options.rank == 0 ? candidates() : std::vector<Candidate>{};
  std::string reasons;
  for (std::size_t i = 0;; ++i) {
    std::shared_ptr<Memory> memory;
    Offer mine;
    if (options.rank == 0) {
      mine = make_offer(kinds[i], options, memory);
      mine.more = i + 1 < kinds.size() && mine.kind != "refused";
    }
    const auto offer = Offer::unpacked(exchange(cut(options.rank == 0 ? mine.packed() : "")).at(0));
    if (offer.kind == "refused")
      throw Error(ErrorCode::invalid_argument, "shm_comm", {.what = offer.text});
    if (offer.kind == "memory") {
      auto connected = agree(offer, options, memory, exchange);
      if (connected.communicator) return connected;
      reasons += (reasons.empty() ? "" : "; then ") + connected.reason;
    } else {
      reasons += (reasons.empty() ? "" : "; then ") + offer.text;
    }
    if (!offer.more) return {nullptr, reasons};
  }
}

}  // namespace anyaccel::ops::shm
