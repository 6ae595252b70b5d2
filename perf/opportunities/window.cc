#include "perf/opportunities/window.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "src/base/wall_clock.h"

namespace harmonaize::opportunities {
namespace {

bool IsThere(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

/// Returns for how long the file has been there; zero for one that is not.
std::chrono::duration<double> AgeOf(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  const double since = static_cast<double>(status.st_mtim.tv_sec) +
                       static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
  return std::chrono::duration<double>(UnixSeconds() - since);
}

}  // namespace

Window::Window(WindowOptions options) : options_(std::move(options)) {}

bool Window::Counts() {
  if (!open_ && (options_.after.empty() || IsThere(options_.after))) {
    open_ = true;
    // A job may be held up in a step while the window opens: that time counts.
    began_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(AgeOf(options_.after));
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
