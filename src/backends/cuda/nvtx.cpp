#include "backends/cuda/nvtx.h"

#include <vector>

#ifdef ANYACCEL_NVTX3
#include <nvtx3/nvToolsExt.h>

#include <map>
#include <mutex>
#else
#include <torch/csrc/profiler/stubs/base.h>
#endif

namespace anyaccel::backends::cuda {

#ifdef ANYACCEL_NVTX3

namespace {

struct Domain {
  nvtxDomainHandle_t handle = nullptr;  // null: NVTX's default domain
  std::map<std::string, std::uint32_t> categories;
};

struct Domains {
  std::mutex mutex;
  std::map<std::string, Domain> known;
};

Domains& domains() {
  static auto* instance =
      new Domains;  // never destroyed, because ranges may close while the program exits
  return *instance;
}

/// The domain's handle and the category's number, created on first use.
std::pair<nvtxDomainHandle_t, std::uint32_t> find(const std::string& domain,
                                                  const std::string& category) {
  auto& all = domains();
  const std::lock_guard lock(all.mutex);
  auto [place, made] = all.known.try_emplace(domain);
  auto& found = place->second;
  if (made && !domain.empty()) found.handle = nvtxDomainCreateA(domain.c_str());
  if (category.empty()) return {found.handle, 0};
  const auto [entry, fresh] = found.categories.try_emplace(category, found.categories.size() + 1);
  if (fresh) nvtxDomainNameCategoryA(found.handle, entry->second, category.c_str());
  return {found.handle, entry->second};
}

thread_local std::vector<nvtxDomainHandle_t> open_ranges;

}  // namespace

bool nvtx_has_domains() noexcept { return true; }

void nvtx_push(const std::string& message, const std::string& domain, const std::string& category) {
  const auto [handle, number] = find(domain, category);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = number;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = message.c_str();
  nvtxDomainRangePushEx(handle, &attributes);
  open_ranges.push_back(handle);
}

void nvtx_pop() {
  if (open_ranges.empty()) return;
  nvtxDomainRangePop(open_ranges.back());
  open_ranges.pop_back();
}

#else

bool nvtx_has_domains() noexcept { return false; }

void nvtx_push(const std::string& message, const std::string&, const std::string&) {
  const auto* stubs = torch::profiler::impl::cudaStubs();
  if (stubs->enabled()) stubs->rangePush(message.c_str());
}

void nvtx_pop() {
  const auto* stubs = torch::profiler::impl::cudaStubs();
  if (stubs->enabled()) stubs->rangePop();
}

#endif

}  // namespace anyaccel::backends::cuda
