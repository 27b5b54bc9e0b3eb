// Validation of FineTuneOptions, and their form in trainer_state.json.
#pragma once

#include <string>

#include "anyaccel/llm/fine_tuner.h"
#include "text/json.h"

namespace anyaccel::llm {

/// Throws `invalid_argument` for the first option that is out of range, or that conflicts with
/// another one.
void check_options(const FineTuneOptions& options);

/// Sets unset options to their defaults.
void complete_options(FineTuneOptions& options, std::int64_t model_context, int ranks);

/// Options as JSON. Paths are absolute, so that a run can be resumed from another folder.
Json options_json(const FineTuneOptions& options);

/// Reads options from JSON. Throws `corrupt`, naming `source`.
FineTuneOptions options_from_json(const Json& json, const std::string& source);

/// Returns the options of a resumed run: those of the saved run, except for those that may change.
FineTuneOptions resumed_options(FineTuneOptions saved, const FineTuneOptions& given);

const char* schedule_name(LearningRateSchedule schedule) noexcept;

}  // namespace anyaccel::llm
