#include "tests/unit/cli/launched.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace harmonaize {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(60);

void Drain(FileDescriptor& fd, short events, std::string* text) {
  if (events == 0) return;
  char buffer[16 * 1024];
  const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
  if (got > 0) {
    text->append(buffer, static_cast<size_t>(got));
  } else {
    fd.Reset();
  }
}

}  // namespace

Environment TestEnvironment() {
  Environment environment = Environment::OfThisProcess();
  environment.Set("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock");
  environment.Unset("LD_PRELOAD");
  return environment;
}

Launched::Launched(std::vector<std::string> words, std::string program,
                   const Environment* environment) {
  ChildSpec spec;
  spec.arguments = std::move(words);
  spec.arguments.insert(spec.arguments.begin(), std::move(program));
  spec.environment = environment == nullptr ? TestEnvironment().Lines() : environment->Lines();
  ::sigemptyset(&spec.signal_mask);
  Result<ChildProcess> child = ChildProcess::Start(spec);
  EXPECT_TRUE(child.ok()) << child.status().message();
  if (child.ok()) child_ = std::move(*child);
}

bool Launched::ReadSome(Clock::time_point deadline) {
  pollfd events[] = {{child_.standard_output().get(), POLLIN, 0},
                     {child_.standard_error().get(), POLLIN, 0}};
  if (events[0].fd < 0 && events[1].fd < 0) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (left.count() <= 0 || ::poll(events, 2, static_cast<int>(left.count())) <= 0) return false;
  Drain(child_.standard_output(), events[0].revents, &output_);
  Drain(child_.standard_error(), events[1].revents, &error_);
  return true;
}

bool Launched::ReadUntil(const std::string& text) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  const auto found = [&] {
    return output_.find(text) != std::string::npos || error_.find(text) != std::string::npos;
  };
  while (!found()) {
    if (!ReadSome(deadline)) return found();
  }
  return true;
}

int Launched::Wait() {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (ReadSome(deadline)) {
  }
  pollfd ended{child_.pidfd(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (::poll(&ended, 1, std::max(0, static_cast<int>(left.count()))) <= 0) return -1;
  return child_.PollEnd()->ShellStatus();
}

void Launched::Signal(int signal) {
  ::kill(child_.pid(), signal);
}

std::vector<std::string> RunScript(std::vector<std::string> words, const std::string& script) {
  words.insert(words.begin(), {"run", "--daemon=none", "--no-preload"});
  words.insert(words.end(), {"--", "sh", "-c", script});
  return words;
}

std::vector<std::string> SortedLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool WaitUntilGone(pid_t process) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < deadline) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    if (!std::getline(stat, line)) return true;
    // The state follows the program's name, which is in parentheses.
    const size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && line.substr(name_end + 2, 1) == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace harmonaize
