// What every use of hwloc begins with; private to the topology.
#pragma once

#include <hwloc.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::topology {

/// Distributions install hwloc plugins that open OpenCL, OpenGL and X11 when a topology is made: 3
/// to 16 ms, against 1 ms for all else. hwloc takes the word for that only from the environment.
/// setenv() may move the environment under another thread's getenv(); a copy that is put in its
/// place and never freed may not.
class WithoutPlugins {
 public:
  WithoutPlugins() : lock_(mutex()) {
    static char setting[] = "HWLOC_PLUGINS_PATH=/nonexistent";
    if (::getenv("HWLOC_PLUGINS_PATH") != nullptr) return;
    before_ = environ;
    // Reachable for ever, as what other threads may still read must be (a leak checker sees it so
    // too).
    static auto& kept = *new std::deque<std::vector<char*>>;
    auto& copy = kept.emplace_back();
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
      copy.push_back(*entry);
    copy.push_back(setting);
    copy.push_back(nullptr);
    environ = ours_ = copy.data();
  }
  ~WithoutPlugins() {
    // A setenv() of another thread has made its own copy, which must stay; it then has our setting
    // too.
    if (ours_ == nullptr) return;
    if (environ == ours_)
      environ = before_;
    else
      ::unsetenv("HWLOC_PLUGINS_PATH");
  }
  WithoutPlugins(const WithoutPlugins&) = delete;
  WithoutPlugins& operator=(const WithoutPlugins&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::lock_guard<std::mutex> lock_;
  char** before_ = nullptr;
  char** ours_ = nullptr;
};

/// Owns a topology while it is read.
class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0)
      throw Error(ErrorCode::unavailable, "topology", {.what = "hwloc cannot start"});
    hwloc_topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    // Nodes of a sub-NUMA cluster hang on a group inside the package; without groups hwloc gives
    // each the package's CPUs.
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    // A node whose memory is forbidden to this process still is the node of its cores.
    hwloc_topology_set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    // Its x86 part moves this thread from core to core to ask each one; Linux has told all that we
    // need.
    hwloc_topology_set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  hwloc_topology_t get() const { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

}  // namespace anyaccel::topology
