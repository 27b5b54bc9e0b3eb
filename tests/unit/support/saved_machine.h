// Base class for tests with saved topologies, which require hwloc. Builds without hwloc skip them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "anyaccel/error.h"
#include "test_paths.h"
#include "topology/topology.h"

namespace anyaccel::test {

class SavedMachineTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      saved("one_core");
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) GTEST_SKIP() << error.what();
      throw;
    }
  }
  /// Reads tests/data/topologies/<name>.xml.
  static topology::Machine saved(const std::string& name) {
    return topology::read_machine(std::filesystem::path(ANYACCEL_TEST_DATA) / "topologies" /
                                  (name + ".xml"));
  }
};

}  // namespace anyaccel::test
