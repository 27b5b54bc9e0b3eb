#include "backends/cpu/communication.h"

#include <gmock/gmock.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/communication.h"
#include "anyaccel/registry.h"
#include "unit/build/tiny_elf.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::backends::cpu {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;
using testing::HasSubstr;

// Broken when the user's word does not count, or the report and the name do not agree.
TEST(Communication, OffIsGloo) {
  const ScopedEnv off("ANYACCEL_CCL", "off");
  set_accelerator("cpu");
  EXPECT_EQ(get_accelerator().communication_backend_name(), "gloo");
  EXPECT_EQ(communication_backend_reason(), "gloo, because ANYACCEL_CCL is off");
}

// Broken when a name comes without its reason, another name than these two is given, or an answer changes while the process lives.
TEST(Communication, NameAndReason) {
  set_accelerator("cpu");
  const auto name = get_accelerator().communication_backend_name();
  const auto reason = communication_backend_reason();
  if (name == "ccl")
    EXPECT_EQ(reason, "oneCCL starts here");
  else
    EXPECT_THAT(reason, HasSubstr("gloo, because "));
  const ScopedEnv off("ANYACCEL_CCL", "off");
  EXPECT_EQ(get_accelerator().communication_backend_name(), name);
  EXPECT_EQ(communication_backend_reason(), reason);
}

// Broken when an accelerator that has nothing to choose is given another one's reason.
TEST(Communication, OthersHaveNoChoice) {
  const auto choice = communication_choice({.name = "other", .communication_backend = "othercl"});
  EXPECT_EQ(choice.name, "othercl");
  EXPECT_EQ(choice.reason, "");
}

// Broken when another library, another build of it, or other settings are answered by what was tried of the first; or when ranks, whose
// own variables differ, try each for itself.
TEST(Communication, WhatTellsOneCclFromAnother) {
  const llm::TemporaryFolder folder;
  const auto library =
      folder.write("op.so", build::tiny_elf("op", {"libccl.so.2", "libc.so.6"}, (folder / "lib").string()));
  folder.write("lib/libccl.so.2", build::tiny_elf("first", {}));
  const auto first = ccl_identity(library);
  EXPECT_THAT(first, HasSubstr("libccl.so.2"));
  EXPECT_EQ(ccl_identity(library), first);
  {
    const ScopedEnv setting("CCL_ATL_TRANSPORT", "other");
    EXPECT_NE(ccl_identity(library), first);
  }
  {
    const ScopedEnv setting("FI_PROVIDER", "other");
    EXPECT_NE(ccl_identity(library), first);
  }
  {
    const ScopedEnv rank("CCL_LOCAL_RANK", "7");
    EXPECT_EQ(ccl_identity(library), first);
  }
  const auto time = fs::last_write_time(folder / "lib/libccl.so.2");
  const auto of_folder = fs::last_write_time(folder / "lib");
  folder.write("lib/libccl.so.2", build::tiny_elf("other", {}));
  fs::last_write_time(folder / "lib/libccl.so.2", time);
  fs::last_write_time(folder / "lib", of_folder);
  EXPECT_NE(ccl_identity(library), first) << "another build of the same size and time";
}

}  // namespace
}  // namespace anyaccel::backends::cpu
