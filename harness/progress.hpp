#pragma once

#include <string>

namespace shardproof {

/// A line on stderr that rewrites itself; silent unless stderr is a terminal. `clear` removes it.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  void operator()(const std::string& what);
  void clear();

 private:
  bool terminal_;
  size_t width_ = 0;
};

}  // namespace shardproof
