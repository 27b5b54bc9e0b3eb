#include "comm/backend_agreement.h"

#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/error.h"
#include "base/log.h"
#include "comm/groups.h"

namespace anyaccel::comm {

namespace {

std::vector<std::uint8_t> written(const BackendPreference& preference) {
  const std::string text = (preference.automatic ? "a" : "n") + preference.name;
  return {text.begin(), text.end()};
}

BackendPreference read(const std::vector<std::uint8_t>& bytes) {
  const std::string text(bytes.begin(), bytes.end());
  return {.name = text.substr(1), .automatic = text.starts_with('a')};
}

bool may_be_gloo(const BackendPreference& preference) {
  return preference.automatic && (preference.name == kGloo || preference.name == kCcl);
}

}  // namespace

std::string agree_on_backend(c10d::Store& store, int rank, int size,
                             const BackendPreference& preference) {
  const auto key = [](int of) { return "backend of/" + std::to_string(of); };
  store.set(key(rank), written(preference));
  bool gloo = true;
  int other = 0;  // first rank that differs from rank 0
  std::vector<BackendPreference> all;
  for (int of = 0; of < size; ++of) {
    all.push_back(read(store.get(key(of))));
    gloo = gloo && may_be_gloo(all.back());
    if (other == 0 && all.back().name != all.front().name) other = of;
  }
  if (other == 0) return preference.name;
  const auto who = [&](int of) {
    return "rank " + std::to_string(of) + ": '" + all[of].name + "'";
  };
  const std::string got = who(0) + ", " + who(other);
  if (!gloo)
    throw Error(ErrorCode::invalid_argument, "init_process_group",
                {.what = "ranks have different communication backends",
                 .got = got,
                 .want = "the same backend on all ranks",
                 .hint = "use the same backend name and accelerator on all ranks"});
  if (rank == 0)
    log(LogLevel::warning,
        "oneCCL is not available on all ranks (" + got + "): all ranks use gloo");
  return kGloo;
}

std::string shared_memory_obstacle() {
  try {
    get_accelerator().create_op_builder("ShareMemCommBuilder")->load();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string first_obstacle(c10d::Store& store, int rank, int size, const std::string& mine) {
  const auto key = [](int of) { return "shared memory/" + std::to_string(of); };
  store.set(key(rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  for (int other = 0; other < size; ++other)
    if (const auto text = store.get(key(other)); !text.empty())
      return "rank " + std::to_string(other) + ": " + std::string(text.begin(), text.end());
  return {};
}

}  // namespace anyaccel::comm
