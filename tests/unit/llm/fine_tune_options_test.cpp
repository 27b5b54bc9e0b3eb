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
