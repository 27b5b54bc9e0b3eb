#include "anyaccel/sdk/op_builder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "anyaccel/error.h"
#include "base/fork_safe.h"
#include "core/described_builder.h"
#include "core/known_ops.h"

namespace anyaccel {

namespace sdk {

namespace {

struct Builders {
  ForkSafeMutex mutex;
  std::map<std::pair<std::string, std::string>, OpBuilderFactory> factories;
};

Builders& builders() {
  static auto* instance = new Builders;
  return *instance;
}

std::string missing(const std::string& class_name, const std::string& backend) {
  auto out = class_name + " is not implemented on " + backend;
  if (!known_op_name(class_name).empty()) return out;
  const auto nearest = nearest_op(class_name);
  return nearest.empty() ? out : out + " (did you mean " + nearest + "?)";
}

}  // namespace

NotImplementedBuilder::NotImplementedBuilder(std::string class_name, std::string backend)
    : class_name_(std::move(class_name)), backend_(std::move(backend)) {}

std::string NotImplementedBuilder::name() const {
  const auto known = known_op_name(class_name_);
  return known.empty() ? "not_implemented" : std::string(known);
}

Compatibility NotImplementedBuilder::is_compatible() const noexcept {
  return {.compatible = false, .reason = missing(class_name_, backend_)};
}

void NotImplementedBuilder::load() {
  throw Error(ErrorCode::unsupported, "OpBuilder::load",
              {.what = missing(class_name_, backend_),
               .hint = "choose another accelerator or a path that does not need this op"});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from, through try_emplace.
void register_op_builder(const std::string& backend, const std::string& class_name,
                         OpBuilderFactory factory) {
  if (backend.empty() || class_name.empty() || !factory)
    throw Error(ErrorCode::invalid_argument, "register_op_builder",
                {.what = "a backend, a class name and a factory are required"});
  auto& state = builders();
  const std::lock_guard lock(state.mutex);
  if (!state.factories.try_emplace({backend, class_name}, std::move(factory)).second)
    throw Error(
        ErrorCode::invalid_argument, "register_op_builder",
        {.what = "this op builder is already registered", .got = class_name + " on " + backend});
}

OpBuilderFactory find_op_builder(const std::string& backend, const std::string& class_name) {
  if (auto registered = find_registered_op(backend, class_name)) return registered;
  return find_own_op(backend, class_name);
}

std::vector<std::string> registered_op_builders(const std::string& backend) {
  auto names = own_ops(backend);
  auto& state = builders();
  const std::lock_guard lock(state.mutex);
  for (const auto& [key, unused] : state.factories)
    if (key.first == backend) names.push_back(key.second);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace sdk

sdk::OpBuilderFactory find_registered_op(const std::string& backend,
                                         const std::string& class_name) {
  auto& state = sdk::builders();
  const std::lock_guard lock(state.mutex);
  const auto place = state.factories.find({backend, class_name});
  return place == state.factories.end() ? sdk::OpBuilderFactory() : place->second;
}

}  // namespace anyaccel
