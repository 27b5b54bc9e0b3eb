// Communication backends that are chosen at run time.
#pragma once

#include <functional>
#include <string>

#include "anyaccel/sdk/traits.h"

namespace anyaccel {

struct CommunicationChoice {
  std::string name;
  std::string reason;  ///< one sentence that explains the choice
};

/// Registers `choose`, which selects the communication backend for the accelerator backend
/// `backend`. It runs at most once per process, when the choice is first needed, and must not
/// throw. Thread-safe.
void set_communication_choice(const std::string& backend,
                              std::function<CommunicationChoice()> choose);

/// Returns the chosen communication backend. If no function was registered, returns the
/// communication backend named in the traits, without a reason. Thread-safe.
CommunicationChoice communication_choice(const sdk::Traits& traits);

}  // namespace anyaccel
