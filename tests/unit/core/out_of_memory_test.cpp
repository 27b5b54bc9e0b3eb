#include "core/out_of_memory.h"

#include <gtest/gtest.h>

namespace anyaccel {
namespace {

// Fails if the message of a device's failed allocation is not recognized.
TEST(OutOfMemory, MessagesOfDevices) {
  for (const auto* message :
       {"CUDA out of memory. Tried to allocate 2.00 GiB", "NPU Out Of Memory",
        "HIP error: hipErrorOutOfMemory: out of memory",
        "Failed to allocate 1125899906842624 bytes on openreg device", "Unable to allocate 4 bytes",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"})
    EXPECT_TRUE(reports_allocation_failure(message)) << message;
}

// Fails if other errors are classified as out-of-memory errors.
TEST(OutOfMemory, OtherMessages) {
  for (const auto* message : {"", "an illegal memory access was encountered", "out of bounds",
                              "memory format is not supported", "Failed to allocate a stream",
                              "allocate() is not implemented"})
    EXPECT_FALSE(reports_allocation_failure(message)) << message;
}

// Fails if torch's own error type is recognized only by its message.
TEST(OutOfMemory, TypeOfTheError) {
  const c10::SourceLocation here{};
  EXPECT_TRUE(is_out_of_memory(c10::OutOfMemoryError(here, "device full")));
  EXPECT_TRUE(is_out_of_memory(c10::Error(here, "out of memory")));
  EXPECT_FALSE(is_out_of_memory(c10::Error(here, "launch failed")));
}

}  // namespace
}  // namespace anyaccel
