#pragma once

#include <chrono>
#include <string>

namespace harmonaize::opportunities {

/// What part of a job's life counts, so that jobs beside each other are measured over the same
/// time.
struct WindowOptions {
  std::string after{};  ///< Nothing counts before this file is there; empty: all counts.
  std::string until{};  ///< The job ends as soon as this file is there; empty: it does not.
  double seconds = 10;  ///< The job ends after so many seconds that count.
};

/// Watches over the window. Only rank 0 asks it: the other ranks hear of the end from rank 0.
/// Thread: one.
class Window {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Window(WindowOptions options);

  /// Returns whether what begins now counts.
  bool Counts();

  /// Returns whether the job is to go on.
  bool GoOn();

  /// Returns the seconds that have counted so far, without what was left out.
  double Seconds() const;

  /// Leaves out the time since `begin`, in which the job did what is not its work.
  void LeaveOut(Clock::time_point begin) { left_out_ += Clock::now() - begin; }

 private:
  const WindowOptions options_;
  bool open_ = false;
  Clock::time_point began_{};
  Clock::duration left_out_{};
};

}  // namespace harmonaize::opportunities
