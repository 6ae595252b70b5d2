#include "tests/support/daemon_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "src/base/file_descriptor.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::testing {
namespace {

// Far longer than a start takes, for machines that are busy and builds with sanitizers.
constexpr auto kPatience = std::chrono::seconds(60);

/// How much of a log is shown, from its end, when a test has failed.
constexpr size_t kShownOfLog = size_t{64} << 10;

/// Whether the daemon answers: it listens a moment before it has all that it will hold.
bool Answers(const std::string& socket_path) {
  Result<ControlSocket> socket = ControlSocket::Connect(socket_path);
  return socket.ok() && socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok() &&
         socket->Receive(static_cast<int>(std::chrono::milliseconds(kPatience).count())).ok();
}

int CountEntries(const std::string& folder) {
  std::error_code ignored;
  int count = 0;
  for (auto entry = std::filesystem::directory_iterator(folder, ignored);
       entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    ++count;
  }
  return count;
}

/// A daemon that started on a busy machine measures the host again whenever it is at rest. Tests
/// count what a daemon holds and does, so theirs do not, unless they say otherwise.
const char* WithoutMeasuringAgain(const std::string& config) {
  return config.find("[calibration]") == std::string::npos ? "\n[calibration]\nagain = false\n"
                                                           : "";
}

struct Runner {
  std::vector<std::string> words;
  gid_t group = 0;
} runner;

/// Further arguments of daemons.
std::vector<std::string> arguments;

std::string NewFolder() {
  char name[] = "/tmp/harmonaize-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  // For its members and their clients; the folder is still one that root made.
  if (runner.group != 0) {
    EXPECT_EQ(chown(folder.c_str(), 0, runner.group), 0);
    EXPECT_EQ(chmod(folder.c_str(), 0775), 0);
  }
  return folder;
}

void Execute(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The processor time, of the user and the system, that a stat file of /proc tells.
long TicksIn(const std::string& stat) {
  // The program's name stands in parentheses and may hold anything; fields are counted after it.
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string field;
  for (int i = 3; i < 14; ++i) fields >> field;
  long user = 0;
  long system = 0;
  fields >> user >> system;
  return user + system;
}

}  // namespace

DaemonProcess::DaemonProcess(const std::string& config, bool keep_log) : folder_(NewFolder()) {
  const char* const wanted = std::getenv("HARMONAIZE_TEST_LOG");
  const char* const level = wanted != nullptr ? wanted : keep_log ? "info" : "error";
  FileDescriptor log;
  if (keep_log) {
    log = FileDescriptor(
        open((folder_ + "/log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  }
  Start(config, log.get(), level);
}

DaemonProcess::DaemonProcess(const std::string& config, LogTo log) : folder_(NewFolder()) {
  Start(config, log.descriptor, nullptr);
}

void DaemonProcess::Start(const std::string& config, int log, const char* level) {
  socket_path_ = folder_ + "/harmonaized.sock";
  const std::string config_path = folder_ + "/provider.toml";
  std::ofstream(config_path) << config << WithoutMeasuringAgain(config);
  setenv("HARMONAIZE_SOCKET", socket_path_.c_str(), 1);

  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("STATE_DIRECTORY", (folder_ + "/state").c_str(), 1);
    if (log >= 0) {
      dup2(log, STDERR_FILENO);
      dup2(log, STDOUT_FILENO);
    }
    std::vector<std::string> words = runner.words;
    words.insert(words.end(),
                 {HARMONAIZED_PROGRAM, "--socket", socket_path_, "--config", config_path});
    words.insert(words.end(), arguments.begin(), arguments.end());
    if (level != nullptr) words.insert(words.end(), {"--log-level", level});
    Execute(words);
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!Answers(socket_path_)) {
    if (std::chrono::steady_clock::now() > deadline || waitpid(pid_, nullptr, WNOHANG) != 0) {
      ADD_FAILURE() << "the daemon did not start";
      std::abort();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void DaemonProcess::RunBy(std::vector<std::string> words, gid_t group) {
  runner = {std::move(words), group};
}

void DaemonProcess::SetArguments(std::vector<std::string> words) {
  arguments = std::move(words);
}

gid_t DaemonProcess::group() {
  return runner.group;
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    EXPECT_EQ(Stop(), 0) << "the daemon did not end cleanly";
    EXPECT_FALSE(std::filesystem::exists(socket_path_)) << "the daemon left its socket behind";
  }
  if (::testing::Test::HasFailure()) {
    const std::string log = Log();
    std::fputs(log.substr(log.size() - std::min(log.size(), kShownOfLog)).c_str(), stderr);
  }
  std::filesystem::remove_all(folder_);
}

std::string DaemonProcess::Log() const {
  return ReadFile(folder_ + "/log");
}

bool DaemonProcess::WaitForLog(std::string_view text) const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (Log().find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

int DaemonProcess::Stop() {
  int status = 0;
  kill(pid_, SIGTERM);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

void DaemonProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int DaemonProcess::OpenDescriptors() const {
  return CountEntries("/proc/" + std::to_string(pid_) + "/fd");
}

bool DaemonProcess::SettlesTo(int descriptors) const {
  for (int i = 0; i < 3000; ++i) {
    if (OpenDescriptors() <= descriptors) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int DaemonProcess::Mappings() const {
  const std::string maps = ReadFile("/proc/" + std::to_string(pid_) + "/maps");
  return static_cast<int>(std::count(maps.begin(), maps.end(), '\n'));
}

long DaemonProcess::NumberIn(const std::string& file, const std::string& name) const {
  std::istringstream words(ReadFile("/proc/" + std::to_string(pid_) + "/" + file));
  for (std::string word; words >> word;) {
    long number = 0;
    if (word == name + ":" && words >> number) return number;
  }
  return -1;
}

long DaemonProcess::ProcessorTicks() const {
  return TicksIn(ReadFile("/proc/" + std::to_string(pid_) + "/stat"));
}

std::map<pid_t, long> DaemonProcess::ThreadTicks() const {
  std::map<pid_t, long> ticks;
  std::error_code ended;
  const std::string folder = "/proc/" + std::to_string(pid_) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ended)) {
    const std::string stat = ReadFile(entry.path() / "stat");
    if (!stat.empty()) ticks[std::stoi(entry.path().filename())] = TicksIn(stat);
  }
  return ticks;
}

}  // namespace harmonaize::testing
