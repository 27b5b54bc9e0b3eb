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

// Fails if ANYACCEL_CCL=off is ignored, or is not given as the reason for gloo.
TEST(Communication, OffIsGloo) {
  const ScopedEnv off("ANYACCEL_CCL", "off");
  set_accelerator("cpu");
  EXPECT_EQ(get_accelerator().communication_backend_name(), "gloo");
  EXPECT_EQ(communication_backend_reason(), "gloo, because ANYACCEL_CCL is off");
}

// Fails if the reason does not match the chosen communication backend, or the choice changes within
// a process.
TEST(Communication, NameAndReason) {
  set_accelerator("cpu");
  const auto name = get_accelerator().communication_backend_name();
  const auto reason = communication_backend_reason();
  if (name == "ccl")
    EXPECT_EQ(reason, "oneCCL starts on this machine");
  else
    EXPECT_THAT(reason, HasSubstr("gloo, because "));
  const ScopedEnv off("ANYACCEL_CCL", "off");
  EXPECT_EQ(get_accelerator().communication_backend_name(), name);
  EXPECT_EQ(communication_backend_reason(), reason);
}

// Fails if a reason is reported for an accelerator that always uses the same communication backend.
TEST(Communication, FixedBackendHasNoReason) {
  const auto choice = communication_choice({.name = "other", .communication_backend = "othercl"});
  EXPECT_EQ(choice.name, "othercl");
  EXPECT_EQ(choice.reason, "");
}

// Fails if different oneCCL builds or settings share a cached trial result. Also fails if variables
// that differ between ranks prevent the ranks from sharing a result.
TEST(Communication, IdentityCoversBuildAndSettings) {
  const llm::TemporaryFolder folder;
  const auto library = folder.write(
      "op.so", build::tiny_elf("op", {"libccl.so.2", "libc.so.6"}, (folder / "lib").string()));
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
