#include "perf/opportunities/window.h"

#include <unistd.h>

#include <utility>

namespace harmonaize::opportunities {
namespace {

bool IsThere(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

Window::Window(WindowOptions options) : options_(std::move(options)) {}

bool Window::Counts() {
  if (!open_ && (options_.after.empty() || IsThere(options_.after))) {
    open_ = true;
    began_ = Clock::now();
    left_out_ = {};
  }
  return open_;
}

bool Window::GoOn() {
  if (!options_.until.empty() && IsThere(options_.until)) return false;
  return Seconds() < options_.seconds;
}

double Window::Seconds() const {
  if (!open_) return 0;
  return std::chrono::duration<double>(Clock::now() - began_ - left_out_).count();
}

}  // namespace harmonaize::opportunities
