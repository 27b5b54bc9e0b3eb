// Tests the handling of files that are not part of the cache key: system headers and files under a
// prefix.
#include "build/external_dependencies.h"

#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

struct ExternalDependenciesTest : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  FakeOp fake;
  ExternalDependenciesTest() {
    fake.write("usr/x.h", "one\n");
    fake.write("external", fake.path("usr/x.h").string());
  }
};

// Fails if a changed system header does not cause a rebuild, or a new time stamp alone causes one.
TEST_F(ExternalDependenciesTest, ChangedSystemHeader) {
  EXPECT_EQ(fake.load().origin, Origin::built);
  fs::last_write_time(fake.path("usr/x.h"),
                      fs::file_time_type::clock::now() - std::chrono::hours(3));
  EXPECT_EQ(fake.load().origin, Origin::cached);
  fake.write("usr/x.h", "two\n");
  EXPECT_EQ(fake.load().origin, Origin::built);
  EXPECT_EQ(fake.load().origin, Origin::cached);
  fs::remove(fake.path("usr/x.h"));
  EXPECT_EQ(fake.load().origin, Origin::built);
  EXPECT_EQ(fake.in_cache("tiny-"), 1) << "the old entry must be replaced";
}

// Fails if files that the key covers also count as external. The compiler resolves symbolic links
// in the paths that it reports, so LibTorch's headers could seem external and be checked at each
// load.
TEST_F(ExternalDependenciesTest, LinksAreFollowed) {
  fs::create_directory_symlink(fake.path("torch"), fake.path("link"));
  fake.write("torch/include/t.h", "t\n");
  fake.write("external",
             fake.path("torch/include/t.h").string() + " " + fake.path("usr/x.h").string());
  fake.describe("");
  fake.settings.torch_prefix = fake.path("link");
  const auto found = fake.load();
  ASSERT_EQ(found.held.manifest.external.size(), 1U);
  EXPECT_EQ(found.held.manifest.external[0].path, fake.path("usr/x.h").string());
}

// Fails if loading a prebuilt library requires the headers that it was compiled with.
TEST_F(ExternalDependenciesTest, PrebuiltNeedsNoHeaders) {
  build_prebuilt(fake.op(), fake.settings, fake.path("prebuilt"));
  fs::remove(fake.path("usr/x.h"));
  EXPECT_EQ(fake.load().origin, Origin::prebuilt);
}

// Fails if a changed library under the prefix is not detected, or an identical library in a
// different location is rejected.
TEST_F(ExternalDependenciesTest, PrefixOfAPrebuiltOp) {
  fake.write("one/include/x.h", "one\n");
  fake.write("one/lib/libthing.so", "one");
  fake.write("external", fake.path("one/include/x.h").string());
  fake.describe("torch = no\nprefix_variable = THING_ROOT\nlink = thing\n");
  {
    const ScopedEnv root("THING_ROOT", fake.path("one").c_str());
    build_prebuilt(fake.op(), fake.settings, fake.path("prebuilt"));
    EXPECT_EQ(fake.load().origin, Origin::prebuilt);
  }
  EXPECT_EQ(fake.load().origin, Origin::prebuilt) << "the variable is not set";
  fs::copy(fake.path("one"), fake.path("two"), fs::copy_options::recursive);
  const ScopedEnv root("THING_ROOT", fake.path("two").c_str());
  EXPECT_EQ(fake.load().origin, Origin::prebuilt);
  fake.write("two/lib/libthing.so", "two");
  std::string why;
  find(fake.op(), fake.settings, &why);
  EXPECT_THAT(why, testing::HasSubstr("two/lib/libthing.so has changed"));
  EXPECT_EQ(fake.load().origin, Origin::built);
}

// Fails if Make's syntax for dependencies (line continuations, spaces, dollar signs) is misread.
TEST(Dependencies, MakeSyntax) {
  EXPECT_THAT(dependencies_in("a.o: a.cpp \\\n /usr/a\\ b.h\\\n  c$$d.h\nx.h:\n"),
              testing::ElementsAre("a.cpp", "/usr/a b.h", "c$d.h"));
}

// Fails if a manifest loses its external files, or a damaged line is accepted.
TEST(Manifests, ExternalFiles) {
  const Manifest manifest{.op = "tiny",
                          .content = "c",
                          .key = "k",
                          .sha256 = "s",
                          .external = {{"/usr/include/a b.h", 12, 345, std::string(64, 'a')}},
                          .parts = {}};
  const auto read = parse_manifest(manifest.text());
  ASSERT_TRUE(read && read->external.size() == 1);
  EXPECT_EQ(read->external[0].path, "/usr/include/a b.h");
  EXPECT_EQ(read->external[0].bytes + read->external[0].time, 357);
  auto text = manifest.text();
  text.erase(text.find("12 345"), 7);
  EXPECT_FALSE(parse_manifest(text));
}

}  // namespace

}  // namespace anyaccel::build
