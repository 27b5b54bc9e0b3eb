#include "text/json.h"

#include <gtest/gtest.h>

#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if untrusted input can exhaust stack or memory, or malformed JSON is accepted.
TEST(Json, Bounds) {
  EXPECT_ERROR(parse_json(std::string(100000, '['), "f"), corrupt, "f is nested too deep");
  EXPECT_ERROR(parse_json("[1,2]", "f", {.max_bytes = 4}), corrupt, "too large");
  EXPECT_ERROR(parse_json(R"({"a":1,"b":{"c":2},"a":3})", "f"), corrupt, "\"a\" twice");
  EXPECT_ERROR(parse_json("{} {}", "f"), corrupt, "f is not valid JSON");
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2}])", "f").size(), 2U);
}

// Fails if a value of the wrong type is converted, or null does not count as missing.
TEST(Json, Types) {
  const Json json = parse_json(
      R"({"n":null,"i":3,"u":18446744073709551615,"d":1.5,"s":"x","b":true,"o":{}})", "f");
  const JsonReader in(json, "f");
  EXPECT_FALSE(in.has("n"));
  EXPECT_FALSE(in.integer("n", 0, 9).has_value());
  EXPECT_EQ(in.integer("i", 0, 9), 3);
  EXPECT_EQ(in.number("i"), 3.0);
  EXPECT_EQ(in.boolean("b"), true);
  EXPECT_EQ(in.string("s"), "x");
  EXPECT_NE(in.object("o"), nullptr);
  EXPECT_ERROR(in.integer("i", 4, 9), corrupt, "got 3, want an integer from 4 to 9");
  for (const char* key : {"u", "d", "s", "b", "o"})
    EXPECT_ERROR(in.integer(key, 0, INT64_MAX), corrupt, key);
  EXPECT_ERROR(in.boolean("i"), corrupt, "true or false");
  EXPECT_ERROR(in.string("i"), corrupt, "a string");
  EXPECT_ERROR(in.object("i"), corrupt, "an object");
  EXPECT_ERROR(in.required_integer("n", 0, 9), corrupt, "f lacks \"n\"");
}

}  // namespace
}  // namespace anyaccel::llm
