// Setup that is needed for every use of hwloc. Internal to src/topology.
#pragma once

#include <hwloc.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::topology {

/// Disables hwloc's plugins during its lifetime. The plugins that distributions install open
/// OpenCL, OpenGL and X11 whenever a topology is created. Creating one then takes 3 to 16 ms
/// instead of 1 ms. hwloc reads this setting only from the environment. Because setenv() could
/// reallocate the environment while another thread calls getenv(), the class instead installs a
/// copy of the environment, which it never frees.
class WithoutPlugins {
 public:
  WithoutPlugins() : lock_(mutex()) {
    static char setting[] = "HWLOC_PLUGINS_PATH=/nonexistent";
    if (::getenv("HWLOC_PLUGINS_PATH") != nullptr) return;
    before_ = environ;
    // Never freed, because other threads may still read a copy. The static reference keeps leak
    // checkers from reporting the copies.
    static auto& kept = *new std::deque<std::vector<char*>>;
    auto& copy = kept.emplace_back();
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
      copy.push_back(*entry);
    copy.push_back(setting);
    copy.push_back(nullptr);
    environ = ours_ = copy.data();
  }
  ~WithoutPlugins() {
    // If another thread has called setenv(), the environment is now that thread's copy. Keep that
    // copy, and remove our setting from it.
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

/// Owns an hwloc topology.
class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0)
      throw Error(ErrorCode::unavailable, "topology", {.what = "hwloc initialization failed"});
    hwloc_topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    // hwloc attaches the nodes of a sub-NUMA cluster to a group inside the package. Without groups,
    // each of these nodes would get all CPUs of the package.
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    // Include nodes whose memory this process may not use, because its cores may still belong to
    // them.
    hwloc_topology_set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    // Disable hwloc's x86 component, which moves this thread from core to core to query each one.
    // Linux already provides all the data that is needed.
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
