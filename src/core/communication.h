// Communication backends that can only be told by looking.
#pragma once

#include <functional>
#include <string>

#include "anyaccel/sdk/traits.h"

namespace anyaccel {

struct CommunicationChoice {
  std::string name;
  std::string reason;  ///< one sentence
};

/// From now on `choose` decides what the backend `name` communicates through; asked at most once a
/// process, when somebody wants to know. It may not throw. Thread-safe.
void set_communication_choice(const std::string& backend,
                              std::function<CommunicationChoice()> choose);

/// What was chosen; the traits' own name, without a reason, where there is no choice. Thread-safe.
CommunicationChoice communication_choice(const sdk::Traits& traits);

}  // namespace anyaccel
