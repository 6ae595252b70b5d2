#include "cli/run/child_process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace harmonaize {
namespace {

struct Pipe {
  FileDescriptor reader;
  FileDescriptor writer;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "cannot make a pipe");
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the new process needs between fork and exec, where nothing may be allocated.
struct ExecPlan {
  const ChildSpec& spec;
  char** arguments;
  char** environment;
  int output;
  int error;
  int report;
  pid_t parent;
};

[[noreturn]] void FailExec(const ExecPlan& plan) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(plan.report, &error, sizeof(error));
  ::_exit(127);
}

[[noreturn]] void Exec(const ExecPlan& plan) {
  if (::setpgid(0, 0) != 0) FailExec(plan);
  if (::prctl(PR_SET_PDEATHSIG, plan.spec.parent_death_signal) != 0) FailExec(plan);
  // The parent may have died before the line above took effect.
  if (::getppid() != plan.parent) ::_exit(127);
  if (!plan.spec.keep_standard_input) {
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) FailExec(plan);
  }
  if (::dup2(plan.output, STDOUT_FILENO) < 0) FailExec(plan);
  if (::dup2(plan.error, STDERR_FILENO) < 0) FailExec(plan);
  if (::sigprocmask(SIG_SETMASK, &plan.spec.signal_mask, nullptr) != 0) FailExec(plan);
  if (plan.spec.prepare && !plan.spec.prepare()) FailExec(plan);
  ::execvpe(plan.arguments[0], plan.arguments, plan.environment);
  FailExec(plan);
}

// Returns the errno with which exec failed, or 0: a successful exec closes the pipe.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

Status ExecError(int error, const std::string& program) {
  const std::string reason = ErrnoError(error, "cannot start '" + program + "'").message();
  if (error == ENOENT || error == ENOTDIR) return Status(Code::kInvalidArgument, reason);
  return Status(Code::kInvalidUsage, reason);
}

ChildEnd EndOf(const siginfo_t& info) {
  return ChildEnd{.by_signal = info.si_code != CLD_EXITED, .value = info.si_status};
}

}  // namespace

std::string ChildEnd::ToString() const {
  if (!by_signal) return fmt::format("exited with status {}", value);
  const char* name = ::sigabbrev_np(value);
  if (name == nullptr) return fmt::format("was killed by signal {}", value);
  return fmt::format("was killed by SIG{} ({})", name, ::sigdescr_np(value));
}

Result<ChildProcess> ChildProcess::Start(const ChildSpec& spec) {
  if (spec.arguments.empty()) return InvalidArgument("no program was given");
  Result<Pipe> output = MakePipe();
  Result<Pipe> error = MakePipe();
  Result<Pipe> report = MakePipe();
  for (const Result<Pipe>* pipe : {&output, &error, &report}) HZ_RETURN_IF_ERROR(pipe->status());

  std::vector<char*> arguments = Pointers(spec.arguments);
  std::vector<char*> environment = Pointers(spec.environment);
  const ExecPlan plan{.spec = spec,
                      .arguments = arguments.data(),
                      .environment = environment.data(),
                      .output = output->writer.get(),
                      .error = error->writer.get(),
                      .report = report->writer.get(),
                      .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoError(errno, "cannot fork");
  if (pid == 0) Exec(plan);

  ChildProcess child;
  child.pid_ = pid;
  report->writer.Reset();
  if (const int exec_error = ReadExecError(report->reader.get()); exec_error != 0) {
    return ExecError(exec_error, spec.arguments[0]);
  }
  child.pidfd_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!child.pidfd_.valid()) return ErrnoError(errno, "cannot watch a process (pidfd_open)");
  child.standard_output_ = std::move(output->reader);
  child.standard_error_ = std::move(error->reader);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept {
  *this = std::move(other);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  End();
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::move(other.pidfd_);
  standard_output_ = std::move(other.standard_output_);
  standard_error_ = std::move(other.standard_error_);
  end_ = std::exchange(other.end_, std::nullopt);
  return *this;
}

ChildProcess::~ChildProcess() {
  End();
}

void ChildProcess::End() {
  if (pid_ < 0) return;
  SignalGroup(SIGKILL);
  Reap();
}

std::optional<ChildEnd> ChildProcess::PollEnd() {
  if (end_ || pid_ < 0) return end_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_) {
    end_ = EndOf(info);
  }
  return end_;
}

void ChildProcess::SignalGroup(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

void ChildProcess::Reap() {
  if (pid_ < 0) return;
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  if (!end_) end_ = EndOf(info);
  pid_ = -1;
}

}  // namespace harmonaize
