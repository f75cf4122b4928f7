#pragma once

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardproof::test {

/// Runs `action` and expects an Error of `fault` whose one-line message holds every one of `words`.
template <class Action>
void expect_error(Fault fault, const std::vector<std::string>& words, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(static_cast<int>(error.fault()), static_cast<int>(fault)) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
  }
}

}  // namespace shardproof::test
