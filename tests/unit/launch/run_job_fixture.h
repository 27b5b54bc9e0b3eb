// Runs jobs whose ranks are shell scripts.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "launch/process_tree.h"
#include "launch/run_job.h"

namespace anyaccel::launch {

class RunJob : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "launch_run_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    EXPECT_TRUE(descendants(::getpid()).empty());
    std::filesystem::remove_all(folder_);
  }

  /// A job in which each rank is a shell that executes one of the scripts.
  Job job(const std::vector<std::string>& scripts) const {
    Job out;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      JobRank rank{.rank = static_cast<int>(i), .host = "here"};
      rank.environment = {{"RANK", std::to_string(i)}, {"FOLDER", folder_}};
      rank.command = {"sh", "-c", scripts[i]};
      out.ranks.push_back(rank);
    }
    return out;
  }
  int run(const std::vector<std::string>& scripts, const RunSettings& settings = {}) {
    testing::internal::CaptureStderr();
    const int code = run_job(job(scripts), settings);
    said_ = testing::internal::GetCapturedStderr();
    return code;
  }
  std::string file(const char* name) const {
    std::ifstream stream(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_, said_;
};

inline constexpr const char* kForever = "exec sleep 1000";

}  // namespace anyaccel::launch
