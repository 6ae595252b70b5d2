#include "perf/fabric/tool.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iterator>

#include "cli/run/child_process.h"
#include "cli/run/environment.h"

namespace harmonaize::fabric {
namespace {

void ReadSome(FileDescriptor& fd, std::string* text) {
  char buffer[16 * 1024];
  const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    fd.Reset();
  } else {
    text->append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Result<std::string> RunTool(const std::vector<std::string>& arguments, int inherited) {
  ChildSpec spec;
  spec.arguments = arguments;
  spec.environment = Environment::OfThisProcess().Lines();
  ::sigemptyset(&spec.signal_mask);
  if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);
  Result<ChildProcess> child = ChildProcess::Start(spec);
  if (inherited >= 0) ::fcntl(inherited, F_SETFD, FD_CLOEXEC);
  if (!child.ok()) return child.status();
  std::string output;
  std::string error;
  while (child->standard_output().valid() || child->standard_error().valid()) {
    pollfd events[] = {{child->standard_output().get(), POLLIN, 0},
                       {child->standard_error().get(), POLLIN, 0}};
    if (::poll(events, std::size(events), -1) < 0) continue;
    if (events[0].revents != 0) ReadSome(child->standard_output(), &output);
    if (events[1].revents != 0) ReadSome(child->standard_error(), &error);
  }
  child->Reap();
  const ChildEnd end = child->PollEnd().value_or(ChildEnd{});
  if (end.success()) return output;
  while (!error.empty() && error.back() == '\n') error.pop_back();
  return SystemError("'{}' {}{}{}", fmt::join(arguments, " "), end.ToString(),
                     error.empty() ? "" : ": ", error);
}

}  // namespace harmonaize::fabric
