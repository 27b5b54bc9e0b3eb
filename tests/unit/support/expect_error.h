// EXPECT_ERROR(statement, code, "part of the message"): expects the statement to throw an
// anyaccel::Error with this code and text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"

#define EXPECT_ERROR(statement, expected_code, text)                                   \
  do {                                                                                 \
    try {                                                                              \
      static_cast<void>(statement);                                                    \
      ADD_FAILURE() << #statement << " did not throw";                                 \
    } catch (const ::anyaccel::Error& error_) {                                        \
      EXPECT_EQ(error_.code(), ::anyaccel::ErrorCode::expected_code) << error_.what(); \
      EXPECT_THAT(error_.what(), ::testing::HasSubstr(text));                          \
    }                                                                                  \
  } while (false)
