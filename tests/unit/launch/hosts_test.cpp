// Tests that host files and filters have the same meaning as in DeepSpeed, and that malformed ones
// are rejected.
#include "launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Slots = std::vector<std::string>;

std::vector<Host> pool() {
  return {{"worker-0", numbered_slots(4)}, {"worker-1", numbered_slots(4)}};
}

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "not refused";
}

std::string file_refusal(const char* text) {
  return refusal([&] { parse_host_file(text, "hosts"); });
}

TEST(HostFile, LinesCommentsAndBlanks) {
  const auto hosts = parse_host_file(
      "# all\n\nworker-1 slots=2\n  worker-0\tslots=3 max_slots=8\r\n   # none\n w2 slots=1 # one",
      "f");
  EXPECT_THAT(hosts, ElementsAre(Host{"worker-1", {"0", "1"}}, Host{"worker-0", {"0", "1", "2"}},
                                 Host{"w2", {"0"}}));
}

TEST(HostFile, SlotsWithNames) {
  const auto hosts =
      parse_host_file("a slots=GPU-8932f937,MIG-1/2/3\nb slots=4,2,007\nc slots=GPU-1", "f");
  EXPECT_THAT(hosts, ElementsAre(Host{"a", {"GPU-8932f937", "MIG-1/2/3"}},
                                 Host{"b", {"4", "2", "7"}}, Host{"c", {"GPU-1"}}));
}

// If a host in the host file has no slots, DeepSpeed starts a job without ranks.
TEST(HostFile, HostsWithoutSlotsAreSkipped) {
  const auto hosts = parse_host_file("a slots=0\nb slots=1", "f");
  for (const char* exclude : {"", "a"})
    EXPECT_THAT(filter_hosts(hosts, "", exclude), ElementsAre(Host{"b", {"0"}}));
  EXPECT_THAT(filter_hosts(hosts, "a@b", ""), ElementsAre(Host{"b", {"0"}}));
  EXPECT_THAT(refusal([&] { filter_hosts(hosts, "a", ""); }),
              HasSubstr("--include names hosts without slots; got 'a'"));
  EXPECT_THAT(file_refusal("a slots=0"), HasSubstr("has no host"));
}

TEST(HostFile, InvalidLinesAreReported) {
  EXPECT_THAT(file_refusal("a slots=1\nb 2"), HasSubstr("hosts:2 "));
  EXPECT_THAT(file_refusal("a"), HasSubstr("hosts:1 "));
  EXPECT_THAT(file_refusal("a slot=2"), HasSubstr("\"a slot=2\""));
  EXPECT_THAT(file_refusal("a slots=4abc"), HasSubstr("4abc"));
  EXPECT_THAT(file_refusal("a slots=-1"), HasSubstr("not a valid host-file line"));
  // A typo such as "O4" must not be accepted as the name of a device. DeepSpeed rejects these lines
  // too.
  for (const char* line : {"a slots=two", "a slots=O4", "a slots=GPU"})
    EXPECT_THAT(file_refusal(line), HasSubstr("hosts:1 is not a valid host-file line"));
  EXPECT_THAT(file_refusal("a slots="), HasSubstr("not a valid host-file line"));
  EXPECT_THAT(file_refusal("a slots=99999999999"), HasSubstr("not a valid host-file line"));
  EXPECT_THAT(file_refusal("a slots=1,,2"), HasSubstr("not a valid host-file line"));
  EXPECT_THAT(file_refusal("a slots=1,01"), HasSubstr("not a valid host-file line"));
  EXPECT_THAT(file_refusal("a:b slots=1"), HasSubstr("filters cannot contain"));
  EXPECT_THAT(file_refusal("a slots=1\n\na slots=2"), HasSubstr("hosts:3 repeats a host"));
  EXPECT_THAT(file_refusal("-oProxyCommand=x slots=1"), HasSubstr("looks like an option"));
  EXPECT_THAT(file_refusal("# nothing\n"), HasSubstr("has no host"));
}

TEST(HostFile, ManyHostsAreFast) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "worker-" + std::to_string(i) + " slots=8\n";
  const auto begin = std::chrono::steady_clock::now();
  const auto hosts = filter_hosts(parse_host_file(text, "f"), "", "worker-499:7@worker-3");
  // Parsing and filtering 500 hosts must take less than 100 ms.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_EQ(hosts.size(), 499U);
}

TEST(Filter, EmptyFilterKeepsAllHosts) { EXPECT_EQ(filter_hosts(pool(), "", ""), pool()); }

TEST(Filter, Include) {
  EXPECT_THAT(filter_hosts(pool(), "worker-0@worker-1:0,2", ""),
              ElementsAre(Host{"worker-0", numbered_slots(4)}, Host{"worker-1", {"0", "2"}}));
  EXPECT_THAT(filter_hosts(pool(), "worker-1", ""),
              ElementsAre(Host{"worker-1", numbered_slots(4)}));
}

// Ranks follow the order of the host file, not that of the filter.
TEST(Filter, KeepsTheOrderOfTheHostFile) {
  const auto hosts = filter_hosts(pool(), "worker-1:3,1@worker-0:2", "");
  EXPECT_THAT(hosts, ElementsAre(Host{"worker-0", {"2"}}, Host{"worker-1", {"1", "3"}}));
}

TEST(Filter, RepeatedHostsAreMerged) {
  EXPECT_THAT(filter_hosts(pool(), "worker-0:3@worker-0:1@worker-0:1", ""),
              ElementsAre(Host{"worker-0", {"1", "3"}}));
  // As in DeepSpeed, a host name without slots adds no slots if the filter also lists slots of that
  // host.
  EXPECT_THAT(filter_hosts(pool(), "worker-0@worker-0:1", ""),
              ElementsAre(Host{"worker-0", {"1"}}));
}

TEST(Filter, Exclude) {
  EXPECT_THAT(filter_hosts(pool(), "", "worker-1:0"),
              ElementsAre(Host{"worker-0", numbered_slots(4)}, Host{"worker-1", {"1", "2", "3"}}));
  EXPECT_THAT(filter_hosts(pool(), "", "worker-0"),
              ElementsAre(Host{"worker-1", numbered_slots(4)}));
  EXPECT_THAT(filter_hosts(pool(), "", "worker-0:0,1,2,3"),
              ElementsAre(Host{"worker-1", numbered_slots(4)}));
}

TEST(Filter, NamedSlots) {
  const std::vector<Host> hosts{{"a", {"GPU-b", "GPU-a"}}};
  EXPECT_THAT(filter_hosts(hosts, "a:GPU-a", ""), ElementsAre(Host{"a", {"GPU-a"}}));
  EXPECT_THAT(filter_hosts(hosts, "", "a:GPU-a"), ElementsAre(Host{"a", {"GPU-b"}}));
  EXPECT_THAT(filter_hosts(hosts, "a:GPU-b,GPU-a", ""), ElementsAre(Host{"a", {"GPU-b", "GPU-a"}}));
}

TEST(Filter, InvalidFiltersAreReported) {
  const auto filter = [](const char* include, const char* exclude) {
    return refusal([&] { filter_hosts(pool(), include, exclude); });
  };
  EXPECT_THAT(filter("worker-9", ""), HasSubstr("--include names an unknown host; got 'worker-9'"));
  EXPECT_THAT(filter("", "worker-9:1"), HasSubstr("--exclude names an unknown host"));
  EXPECT_THAT(filter("worker-0:4", ""),
              HasSubstr("host worker-0 does not have this slot; got '4', want one of 0,1,2,3"));
  EXPECT_THAT(filter("worker-0:", ""), HasSubstr("has an empty slot"));
  EXPECT_THAT(filter("worker-0:1,,2", ""), HasSubstr("has an empty slot"));
  EXPECT_THAT(filter("@worker-0", ""), HasSubstr("has no host name"));
  EXPECT_THAT(filter("", "worker-0@worker-1"), HasSubstr("leaves no slot"));
}

TEST(Hosts, FirstHosts) {
  EXPECT_EQ(first_hosts(pool(), 1).size(), 1U);
  EXPECT_THAT(refusal([] { first_hosts(pool(), 3); }),
              HasSubstr("--num_nodes exceeds the number of hosts; got 3, want at most 2"));
}

TEST(Hosts, LimitsSlotsPerHost) {
  EXPECT_EQ(slots_of_each(pool(), 2, FewerSlots::fail).front().slots, (Slots{"0", "1"}));
  EXPECT_EQ(slots_of_each({{"a", {"GPU-x", "GPU-y"}}}, 1, FewerSlots::fail).front().slots,
            Slots{"GPU-x"});
  EXPECT_EQ(slots_of_each({{"a", {"0"}}}, 3, FewerSlots::add).front().slots, numbered_slots(3));
  EXPECT_EQ(
      slots_of_each({{"a", {"0", "1"}}}, 2, FewerSlots::fail_unless_oversubscribed).front().slots,
      numbered_slots(2));
  const auto refused = refusal([] { slots_of_each(pool(), 5, FewerSlots::fail); });
  EXPECT_THAT(refused,
              HasSubstr("--num_accelerators exceeds the slots of worker-0; got 5, want at most 4"));
  EXPECT_THAT(refused, Not(HasSubstr("--oversubscribe")));
  EXPECT_THAT(refusal([] { slots_of_each(pool(), 5, FewerSlots::fail_unless_oversubscribed); }),
              HasSubstr("want at most 4; add slots to the host file, or pass --oversubscribe"));
}

// Fails if named slots are accepted for an accelerator without a visible-devices variable.
TEST(Hosts, NamedSlotsRequireAVariable) {
  EXPECT_EQ(refusal([] { check_numbered(pool(), "cpu"); }), "not refused");
  EXPECT_THAT(refusal([] {
                check_numbered({{"a", {"0", "O4"}}}, "cpu");
              }),
              HasSubstr("host a has a named slot, but cpu has only numbered devices; got \"O4\""));
}

}  // namespace
}  // namespace anyaccel::launch
