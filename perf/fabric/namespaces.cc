#include "perf/fabric/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

namespace harmonaize::fabric {
namespace {

namespace fs = std::filesystem;

constexpr char kNamespaceFolder[] = "/run/netns";
constexpr std::chrono::seconds kKillGrace(2);
constexpr std::chrono::seconds kPatience(10);

std::string PathOf(const std::string& name) {
  return fmt::format("{}/{}", kNamespaceFolder, name);
}

bool FoundInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/sbin:/usr/bin:/sbin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> processes;
  std::error_code error;
  for (auto entry = fs::directory_iterator("/proc", error); entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0]))) processes.push_back(std::stoi(name));
  }
  return processes;
}

}  // namespace

std::string NamespaceName(const std::string& laboratory, const std::string& node) {
  return fmt::format("hzf.{}.{}", laboratory, node);
}

Status CheckPrivileges() {
  for (const char* program : {"ip", "tc"}) {
    if (!FoundInPath(program)) {
      return Unavailable("there is no program '{}' in PATH; Debian's package iproute2 has it",
                         program);
    }
  }
  int error = 0;
  // Only the thread enters the new namespace: this process stays where it is.
  std::thread([&error] {
    if (::unshare(CLONE_NEWNET) != 0) error = errno;
  }).join();
  if (error != 0) {
    return Unavailable("the laboratory needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; {}",
                       ErrnoError(error, "making a network namespace failed").message());
  }
  return Status::Ok();
}

std::vector<std::string> NamespacesOf(const std::string& laboratory) {
  const std::string prefix = NamespaceName(laboratory, "");
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(kNamespaceFolder, error);
       entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status InNamespace(const std::string& name, const std::function<Status()>& work) {
  const FileDescriptor fd(::open(PathOf(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot open namespace " + name);
  Status status;
  std::thread([&] {
    status = ::setns(fd.get(), CLONE_NEWNET) == 0
                 ? work()
                 : ErrnoError(errno, "cannot enter namespace " + name);
  }).join();
  return status;
}

Status SetKernelParameter(const std::string& key, const std::string& value) {
  std::ofstream file("/proc/sys/" + key);
  file << value << std::flush;
  return file ? Status::Ok() : ErrnoError(errno, "cannot set kernel parameter " + key);
}

Result<NamespaceEntry> NamespaceEntry::Open(const std::string& name) {
  NamespaceEntry entry;
  entry.fd_ = FileDescriptor(::open(PathOf(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!entry.fd_.valid()) return ErrnoError(errno, "cannot open namespace " + name);
  return entry;
}

bool NamespaceEntry::Enter() const {
  // A sysfs shows the devices of the namespace in which it was mounted, and programs look there.
  if (::setns(fd_.get(), CLONE_NEWNET) != 0 || ::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return false;
  // Where it was read-only, as in a container, no writable one can be mounted.
  struct statvfs old {};
  const bool read_only = ::statvfs("/sys", &old) == 0 && (old.f_flag & ST_RDONLY) != 0;
  ::umount2("/sys", MNT_DETACH);
  return ::mount("fabric", "/sys", "sysfs", read_only ? MS_RDONLY : 0, nullptr) == 0;
}

std::vector<NamespaceProcess> ProcessesIn(const std::vector<std::string>& names) {
  std::map<std::pair<dev_t, ino_t>, std::string> spaces;
  struct stat info {};
  for (const std::string& name : names) {
    if (::stat(PathOf(name).c_str(), &info) == 0) spaces[{info.st_dev, info.st_ino}] = name;
  }
  std::vector<NamespaceProcess> processes;
  for (const pid_t pid : AllProcesses()) {
    if (::stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &info) != 0) continue;
    const auto found = spaces.find({info.st_dev, info.st_ino});
    if (found != spaces.end()) processes.push_back({pid, found->second});
  }
  return processes;
}

std::string EnvironmentOf(pid_t process, const std::string& variable) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  for (std::string line; std::getline(file, line, '\0');) {
    if (line.starts_with(variable + "=")) return line.substr(variable.size() + 1);
  }
  return "";
}

Status EndProcessesIn(const std::vector<std::string>& names) {
  const auto start = std::chrono::steady_clock::now();
  int signal = SIGTERM;
  for (;;) {
    const std::vector<NamespaceProcess> processes = ProcessesIn(names);
    if (processes.empty()) return Status::Ok();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > kPatience) {
      return SystemError("process {} in {} does not end", processes[0].pid, processes[0].space);
    }
    if (waited > kKillGrace) signal = SIGKILL;
    if (signal != 0) {
      for (const NamespaceProcess& process : processes) ::kill(process.pid, signal);
    }
    signal = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace harmonaize::fabric
