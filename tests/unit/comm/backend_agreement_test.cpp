#include "comm/backend_agreement.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <vector>

#include "unit/comm/ranks.h"
#include "unit/support/expect_error.h"

namespace anyaccel::comm {
namespace {

/// Returns each rank's backend, or its error message.
std::vector<std::string> results_of(const std::vector<BackendPreference>& preferences) {
  c10d::HashStore store;
  std::vector<std::string> out(preferences.size());
  test::in_threads(static_cast<int>(preferences.size()), [&](int rank) {
    try {
      out[rank] =
          agree_on_backend(store, rank, static_cast<int>(preferences.size()), preferences[rank]);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      out[rank] = error.what();
    }
  });
  return out;
}

// Fails if a backend that all ranks prefer is not used.
TEST(AgreeOnBackend, CommonPreferenceIsUsed) {
  EXPECT_EQ(results_of({{"ccl", true}, {"ccl", true}}), (std::vector<std::string>{"ccl", "ccl"}));
  EXPECT_EQ(results_of({{"nccl", false}, {"nccl", true}}),
            (std::vector<std::string>{"nccl", "nccl"}));
  EXPECT_EQ(results_of({{"", false}}), (std::vector<std::string>{""}));
}

// Fails if the ranks do not fall back to gloo when some of them lack oneCCL.
TEST(AgreeOnBackend, FallsBackToGlooWithoutOneCcl) {
  const std::vector<std::string> gloo(3, "gloo");
  EXPECT_EQ(results_of({{"ccl", true}, {"ccl", true}, {"gloo", true}}), gloo);
  EXPECT_EQ(results_of({{"gloo", true}, {"ccl", true}, {"ccl", true}}), gloo);
}

// Fails if a backend that the user requested by name is replaced, or some ranks do not get the
// error.
TEST(AgreeOnBackend, OtherDifferencesAreErrorsOnAllRanks) {
  for (const auto& preferences : {std::vector<BackendPreference>{{"ccl", false}, {"gloo", true}},
                                  std::vector<BackendPreference>{{"ccl", true}, {"gloo", false}},
                                  std::vector<BackendPreference>{{"nccl", true}, {"gloo", true}}})
    for (const std::string& text : results_of(preferences))
      EXPECT_NE(text.find("different communication backends; got rank 0: '" + preferences[0].name +
                          "', rank 1: 'gloo'"),
                std::string::npos)
          << text;
}

}  // namespace
}  // namespace anyaccel::comm
