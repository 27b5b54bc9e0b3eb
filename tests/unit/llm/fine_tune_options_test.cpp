#include "llm/fine_tune/options.h"

#include <gtest/gtest.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if a resumed run with a new time limit forgets its number of epochs, which determines its
// learning rate, or if a new number of steps keeps a time limit that has passed.
TEST(FineTuneOptions, LimitsOfResumedRuns) {
  FineTuneOptions saved;
  saved.epochs = 3;
  FineTuneOptions given;
  given.minutes = 5;
  FineTuneOptions both = resumed_options(saved, given);
  EXPECT_EQ(both.epochs, 3);
  EXPECT_EQ(both.minutes, 5);
  FineTuneOptions more;
  more.steps = 7;
  both = resumed_options(both, more);
  EXPECT_EQ(both.steps, 7);
  EXPECT_FALSE(both.epochs);
  EXPECT_FALSE(both.minutes);
}

// Fails if a number of epochs is accepted whose number of rows overflows.
TEST(FineTuneOptions, Epochs) {
  FineTuneOptions options;
  options.data.emplace_back("data");
  options.epochs = 1e300;
  EXPECT_ERROR(check_options(options), invalid_argument, "epochs");
  options.epochs = 0.5;
  check_options(options);
}

// Fails if an offloaded optimizer does not select stage 1, if a combination without effect is
// accepted, or if a resumed run ignores a new stage or device or keeps the path of an old one.
TEST(FineTuneOptions, ShardedOptimizer) {
  FineTuneOptions options;
  options.model = "/model";
  options.data.emplace_back("data");
  FineTuneOptions plain = options;
  complete_options(plain, 128, 1);
  EXPECT_EQ(plain.zero_stage, 0);
  EXPECT_EQ(plain.offload_optimizer, OffloadDevice::none);
  options.offload_optimizer = OffloadDevice::nvme;
  options.offload_path = "/disk";
  check_options(options);
  complete_options(options, 128, 1);
  EXPECT_EQ(options.zero_stage, 1);
  const FineTuneOptions saved = options_from_json(options_json(options), "test");
  EXPECT_EQ(saved.zero_stage, 1);
  EXPECT_EQ(saved.offload_optimizer, OffloadDevice::nvme);
  EXPECT_EQ(saved.offload_path, "/disk");
  options.zero_stage = 0;
  EXPECT_ERROR(check_options(options), invalid_argument, "ZeRO stage 1 or 2");
  options.zero_stage = 3;
  EXPECT_ERROR(check_options(options), invalid_argument, "zero-stage");
  options.zero_stage = 1;
  options.offload_optimizer = OffloadDevice::host;
  EXPECT_ERROR(check_options(options), invalid_argument, "offload path");

  FineTuneOptions given;
  FineTuneOptions resumed = resumed_options(saved, given);
  EXPECT_EQ(resumed.offload_path, "/disk");
  given.offload_optimizer = OffloadDevice::host;
  given.zero_stage = 2;
  resumed = resumed_options(saved, given);
  EXPECT_EQ(resumed.zero_stage, 2);
  EXPECT_TRUE(resumed.offload_path.empty());
  check_options(resumed);
  given.zero_stage.reset();
  resumed = resumed_options(options_from_json(options_json(plain), "test"), given);
  complete_options(resumed, 128, 1);
  EXPECT_EQ(resumed.zero_stage, 1);
}

// Fails if a run whose first save was killed between two renames cannot be resumed.
TEST(FineTuner, ResumesAfterInterruptedFirstSave) {
  const TemporaryFolder folder;
  EXPECT_FALSE(FineTuner::can_resume(folder.path()));
  folder.write("trainer_state.json.part-1", R"({"kind": "fine_tune"})");
  folder.write(".anyaccel-commit", "trainer_state.json.part-1\ntrainer_state.json\n");
  EXPECT_TRUE(FineTuner::can_resume(folder.path()));
}

}  // namespace
}  // namespace anyaccel::llm
