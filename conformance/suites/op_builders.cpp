// Suite "op_builders": registered builders are found, and unknown ones are rejected with a reason.
#include <filesystem>

#include "support.h"

namespace anyaccel::conformance {

namespace {

class TrialBuilder final : public sdk::OpBuilder {
 public:
  explicit TrialBuilder(std::string name) : name_(std::move(name)) {}
  std::string class_name() const override { return name_; }
  std::string name() const override { return "conformance_trial"; }
  Compatibility is_compatible() const noexcept override { return {true, {}}; }
  void load() override { ++loads; }
  static inline int loads = 0;

 private:
  std::string name_;
};

/// Registers two test builders for the backend, once per process.
void register_trials(const Accelerator& accelerator) {
  static const bool done = [&] {
    for (const char* name : {"ConformanceTrialBuilder", "ConformanceOtherBuilder"})
      sdk::register_op_builder(accelerator.name(), name,
                               [name] { return std::make_shared<TrialBuilder>(name); });
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(op_builders, registered_builder_is_found, required) {
  register_trials(accelerator);
  const auto builder = accelerator.create_op_builder("ConformanceTrialBuilder");
  expect(builder != nullptr && builder->is_compatible().compatible,
         "a registered builder is not found");
  const int before = TrialBuilder::loads;
  builder->load();
  expect_equal(TrialBuilder::loads, before + 1, "calls of a registered builder's load()");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, op_can_be_loaded_again, required) {
  register_trials(accelerator);
  const int before = TrialBuilder::loads;
  const auto builder = accelerator.create_op_builder("ConformanceTrialBuilder");
  builder->load();
  builder->load();
  accelerator.create_op_builder("ConformanceTrialBuilder")->load();
  expect_equal(TrialBuilder::loads, before + 3,
               "calls of load() that reached a registered builder");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, builder_is_the_one_asked_for, required) {
  register_trials(accelerator);
  for (const auto& name : sdk::registered_op_builders(accelerator.name()))
    expect_equal(accelerator.create_op_builder(name)->class_name(), name,
                 "class_name() of create_op_builder()");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, unknown_op_refuses_to_load, required) {
  const auto builder = accelerator.create_op_builder("NoSuchOpBuilder");
  expect(builder != nullptr, "create_op_builder() of an unknown op is null");
  expect(!builder->is_compatible().compatible, "an unknown op is compatible");
  expect_error(
      ErrorCode::unsupported, [&] { builder->load(); }, "loading an unknown op");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, refusal_has_a_reason, required) {
  auto names = sdk::registered_op_builders(accelerator.name());
  names.push_back("NoSuchOpBuilder");
  for (const auto& name : names) {
    const auto answer = accelerator.create_op_builder(name)->is_compatible();
    expect(answer.compatible || !answer.reason.empty(),
           name + " is not compatible and gives no reason");
  }
}

ANYACCEL_CONFORMANCE_CASE(op_builders, builders_have_names, required) {
  register_trials(accelerator);
  for (const auto& name : sdk::registered_op_builders(accelerator.name()))
    expect(!accelerator.create_op_builder(name)->name().empty(), name + " has no NAME");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, factory_gives_builders, required) {
  register_trials(accelerator);
  const auto factory = accelerator.get_op_builder("ConformanceTrialBuilder");
  expect(factory && factory() != nullptr, "get_op_builder() returned nothing for a registered op");
  const auto none = accelerator.get_op_builder("NoSuchOpBuilder");
  expect(none && none() != nullptr, "get_op_builder() returned nothing for an unknown op");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, second_builder_of_a_name_is_refused, required) {
  register_trials(accelerator);
  expect_error(
      ErrorCode::invalid_argument,
      [&] {
        sdk::register_op_builder(accelerator.name(), "ConformanceTrialBuilder",
                                 [] { return std::make_shared<TrialBuilder>("x"); });
      },
      "a second builder with the same name");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, package_is_named, recommended) {
  expect(!accelerator.op_builder_dir().empty(), "op_builder_dir() is empty");
}

ANYACCEL_CONFORMANCE_CASE(op_builders, extensions_can_be_built, recommended) {
  const auto build = accelerator.build_extension();
  expect(!build.include_dirs.empty() && !build.libraries.empty(),
         "build_extension() names no folders or libraries");
  for (const auto& folder : build.include_dirs)
    expect(std::filesystem::is_directory(folder),
           "build_extension() names a folder that does not exist: " + folder);
}

}  // namespace anyaccel::conformance
