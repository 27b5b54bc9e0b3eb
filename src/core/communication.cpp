#include "core/communication.h"

#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/communication.h"
#include "anyaccel/sdk/backend.h"
#include "base/fork_safe.h"

namespace anyaccel {

namespace {

struct Entry {
  std::function<CommunicationChoice()> choose;
  std::optional<CommunicationChoice> chosen = {};
  /// PID of the process whose thread runs `choose`. A forked child does not have that thread.
  pid_t chooser = 0;
};

struct Choices {
  ForkSafeMutex mutex;
  std::map<std::string, Entry> entries;
};

Choices& choices() {
  static auto* instance = new Choices;
  return *instance;
}

}  // namespace

void set_communication_choice(const std::string& backend,
                              std::function<CommunicationChoice()> choose) {
  auto& all = choices();
  const std::lock_guard lock(all.mutex);
  all.entries[backend] = {.choose = std::move(choose)};
}

CommunicationChoice communication_choice(const sdk::Traits& traits) {
  auto& all = choices();
  std::function<CommunicationChoice()> choose;
  // `choose` may take a second and start a process, so it runs without the lock. Other threads wait
  // for the result.
  for (;;) {
    {
      const std::lock_guard lock(all.mutex);
      const auto found = all.entries.find(traits.name);
      if (found == all.entries.end()) return {traits.communication_backend, {}};
      auto& entry = found->second;
      if (entry.chosen) return *entry.chosen;
      if (entry.chooser != ::getpid()) {
        entry.chooser = ::getpid();
        choose = entry.choose;
        break;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  auto answer = choose();
  const std::lock_guard lock(all.mutex);
  all.entries[traits.name].chosen = answer;
  return answer;
}

std::string communication_backend_reason() {
  return communication_choice(get_accelerator().backend().traits()).reason;
}

}  // namespace anyaccel
