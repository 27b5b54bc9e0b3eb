#include "base/plugin/plugin_file.h"

#include "unit/support/expect_error.h"
#include "unit/support/plugin_folder.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using test::plugin_text;

PluginTraits traits_of(const std::string& lines) {
  return plugin_traits(parse_plugin_file(plugin_text("mycard", "libmycard.so", lines)));
}

// Fails if the value of a key is not stored in the corresponding member, or a list keeps only one
// entry.
TEST(PluginFile, ReadsAllKeys) {
  const auto file = parse_plugin_file(plugin_text("mycard", "libmycard.so"));
  EXPECT_EQ(file.name, "mycard");
  EXPECT_EQ(file.library, "libmycard.so");
  EXPECT_EQ(identity_mismatch(file.build, own_identity()), "");
  EXPECT_EQ(plugin_traits(file).traits.communication_backend, "gloo");
  const auto all = traits_of(
      "class_name = My_Accelerator\ndevice_type = mycard\ncommunication_backend = "
      "myccl\ncompile_backend=mydynamo\n"
      "compile_backends = mydynamo\ncompile_backends = eager\nsynchronized = true\nuse_host_timers "
      "= true\n"
      "resolves_data_dependency = true\nhandles_memory_backpressure = true\nindexed_names = false\n"
      "supports_nvtx_domain = true\nfp64 = false\ntriton = true\nvendor = Acme Inc.\npriority = "
      "-7\nvisible_devices_env = MY_VISIBLE\nexport_env = MY_\n"
      "export_env = MYCCL\nstart_environment = MY_LAZY | a=b | it is = faster\nop_builder_dir = "
      "my.ops\n# said so\n\n");
  const auto& traits = all.traits;
  EXPECT_EQ(traits.name, "mycard");
  EXPECT_EQ(traits.class_name, "My_Accelerator");
  EXPECT_EQ(traits.device_type, "mycard");
  EXPECT_EQ(traits.communication_backend, "myccl");
  EXPECT_EQ(traits.compile_backend, "mydynamo");
  EXPECT_THAT(traits.compile_backends, testing::ElementsAre("mydynamo", "eager"));
  EXPECT_TRUE(traits.synchronized && traits.use_host_timers && traits.resolves_data_dependency);
  EXPECT_TRUE(traits.handles_memory_backpressure && traits.supports_nvtx_domain);
  EXPECT_FALSE(traits.indexed_names || traits.fp64);
  EXPECT_TRUE(traits.triton);
  EXPECT_EQ(traits.vendor, "Acme Inc.");
  EXPECT_EQ(traits.priority, -7);
  EXPECT_THAT(traits.visible_devices_envs, testing::ElementsAre("MY_VISIBLE"));
  EXPECT_THAT(traits.export_envs, testing::ElementsAre("MY_", "MYCCL"));
  ASSERT_EQ(traits.start_environment.size(), 1U);
  EXPECT_EQ(traits.start_environment[0].name, "MY_LAZY");
  EXPECT_EQ(traits.start_environment[0].value, "a=b");
  EXPECT_EQ(traits.start_environment[0].reason, "it is = faster");
  EXPECT_EQ(traits.op_builder_dir, "my.ops");
}

// Fails if a malformed line is accepted, or the error does not identify the line.
TEST(PluginFile, RejectsMalformedFiles) {
  EXPECT_ERROR(parse_plugin_file(""), corrupt, "anyaccel_plugin = 1");
  EXPECT_ERROR(parse_plugin_file("name = x"), corrupt, "line 1");
  EXPECT_ERROR(parse_plugin_file("\n\nanyaccel_plugin = 2\n"), version_mismatch, "got '2', want 1");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nname = Card"), corrupt, "'Card'");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nname = card\n"), corrupt, "`library`");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nlibrary = ../x.so"), corrupt,
               "in the same folder as the text file");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nabi = -1"), corrupt, "abi");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nnonsense"), corrupt,
               "line 2: not `key = value`");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nname = a\x1b[2J"), corrupt,
               "control character");
  EXPECT_ERROR(parse_plugin_file("anyaccel_plugin = 1\nname = aa\nname = bb"), corrupt,
               "is duplicated");
  EXPECT_ERROR(traits_of("prioritty = 1\n"), corrupt, "unknown key; got 'prioritty'");
  EXPECT_ERROR(traits_of("priority = high\n"), corrupt, "priority");
  EXPECT_ERROR(traits_of("synchronized = yes\n"), corrupt, "true or false");
  EXPECT_ERROR(traits_of("device_type =\n"), corrupt, "no value");
  EXPECT_ERROR(traits_of("start_environment = A=1\n"), corrupt, "NAME | value | reason");
  EXPECT_ERROR(traits_of("probe_folder = dev\n"), corrupt, "must be used together");
  EXPECT_ERROR(traits_of("probe_folder = /dev\nprobe_prefix = x\n"), corrupt, "below the root");
  EXPECT_ERROR(traits_of("probe_folder = ../dev\nprobe_prefix = x\n"), corrupt, "below the root");
}

// Fails if a probe described in the plugin file does not work as documented.
TEST(PluginFile, Probes) {
  EXPECT_EQ(probe_plugin(traits_of("probe_count = 3\n").probe)->device_count, 3);
  EXPECT_EQ(probe_plugin(PluginProbe{}), std::nullopt);
  llm::TemporaryFolder root;
  root.write("dev/mycard0", "");
  root.write("dev/mycard1", "");
  root.write("dev/mycardctl", "");
  const test::ScopedEnv env("ANYACCEL_DEVICE_ROOT", root.path().c_str());
  PluginProbe files{.folder = "dev", .prefix = "mycard", .visible = "MYCARD_VISIBLE"};
  EXPECT_EQ(probe_plugin(files)->device_count, 2);
  const test::ScopedEnv visible("MYCARD_VISIBLE", "1");
  EXPECT_EQ(probe_plugin(files)->device_count, 1);
  files.prefix = "other";
  EXPECT_EQ(probe_plugin(files)->device_count, 0);
}

// Fails if a plugin can use the name of a built-in backend, or an invalid name.
TEST(PluginFile, Names) {
  for (const char* good : {"hostcard", "my_card2"})
    EXPECT_TRUE(is_plugin_name(good) && !is_reserved_name(good)) << good;
  for (const char* bad : {"", "a", "2card", "Card", "my-card", "my card", "../card", "_card",
                          "abcdefghijklmnopqrstuvwxyzabcdefg"})
    EXPECT_FALSE(is_plugin_name(bad)) << bad;
  for (const char* reserved :
       {"cuda", "cpu", "sim", "klxpu", "meta", "privateuseone", "auto", "device"})
    EXPECT_TRUE(is_reserved_name(reserved)) << reserved;
  for (const char* free : {"cud", "uda", "cpu cuda", " cpu", ""})
    EXPECT_FALSE(is_reserved_name(free)) << free;
}

}  // namespace
}  // namespace anyaccel
