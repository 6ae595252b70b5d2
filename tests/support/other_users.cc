#include "tests/support/other_users.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include "src/base/file_descriptor.h"
#include "src/base/user_numbers.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;

// Seconds that a program may take, on a busy machine and with sanitizers.
constexpr unsigned kPatience = 30;

pid_t Fork(const std::function<int()>& body) {
  // What is buffered now would be written by both.
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  int status = 1;
  try {
    status = body();
  } catch (const std::exception& exception) {
    // Not gtest's to catch: the child would go on with other tests.
    std::fprintf(stderr, "an exception ends a child: %s\n", exception.what());
  }
  std::fflush(nullptr);
  _exit(::testing::Test::HasFailure() ? 1 : status);
}

void Execute(const std::vector<std::string>& words,
             const std::map<std::string, std::string>& environment) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  clearenv();
  setenv("PATH", "/usr/bin:/bin", 1);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  execv(arguments[0], arguments.data());
  _exit(127);
}

bool MountPrivately() {
  return unshare(CLONE_NEWNS) == 0 && mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
}

void MakeFolder(const fs::path& folder, mode_t mode) {
  fs::create_directory(folder);
  // Whatever the umask says.
  ASSERT_EQ(chmod(folder.c_str(), mode), 0);
}

/// What programs need of /etc to find libraries and users.
void CopyEtc(const fs::path& to) {
  for (const char* name : {"passwd", "group", "nsswitch.conf", "ld.so.cache"}) {
    std::error_code missing;
    fs::copy_file(fs::path("/etc") / name, to / name, missing);
  }
}

/// Bound, because the folder that holds a program may be closed to users.
void Bind(const fs::path& what, const fs::path& where, bool file) {
  if (file) std::ofstream(where).close();
  ASSERT_EQ(mount(what.c_str(), where.c_str(), "", MS_BIND | MS_REC, nullptr), 0)
      << what << ": " << strerror(errno);
}

void Furnish(const fs::path& host, const std::vector<std::string>& programs) {
  ASSERT_TRUE(MountPrivately());
  ASSERT_EQ(mount("tmpfs", host.c_str(), "tmpfs", 0, "mode=0755"), 0);
  MakeFolder(host / "tmp", 01777);
  MakeFolder(host / "tmp/bin", 0755);
  MakeFolder(host / "run", 0755);
  MakeFolder(host / "etc", 0755);
  CopyEtc(host / "etc");
  for (const fs::path program : programs) {
    Bind(program, host / "tmp/bin" / program.filename(), true);
    // One that was built below /tmp stays where it is, too, for those who know it by that place.
    const fs::path below_tmp = program.lexically_relative("/tmp");
    if (below_tmp.empty() || *below_tmp.begin() == "..") continue;
    const fs::path same_place = host / "tmp" / below_tmp;
    fs::create_directories(same_place.parent_path());
    Bind(program, same_place, true);
  }
  Bind(host / "run", "/run", false);
  Bind(host / "etc", "/etc", false);
  Bind(host / "tmp", "/tmp", false);
}

}  // namespace

void BecomeUser(uid_t user, const std::vector<gid_t>& groups) {
  if (user == 0) return;
  if (setgroups(groups.size(), groups.data()) == 0 && setresgid(user, user, user) == 0 &&
      setresuid(user, user, user) == 0) {
    return;
  }
  std::perror("cannot become another user");
  _exit(126);
}

pid_t StartAs(uid_t user, const std::function<int()>& body, const std::vector<gid_t>& groups) {
  return Fork([&] {
    BecomeUser(user, groups);
    // After that: who becomes another user loses it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return body();
  });
}

int StatusOf(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Ran RunAs(uid_t user, const std::vector<std::string>& words,
          const std::map<std::string, std::string>& environment, const std::vector<gid_t>& groups) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  const auto execute = [&] {
    dup2(writing.get(), STDOUT_FILENO);
    dup2(writing.get(), STDERR_FILENO);
    alarm(kPatience);
    Execute(words, environment);
    return 127;
  };
  const pid_t child = StartAs(user, execute, groups);
  writing.Reset();
  Ran ran;
  char text[4096];
  for (ssize_t got; (got = read(reading.get(), text, sizeof text)) > 0;) {
    ran.text.append(text, static_cast<size_t>(got));
  }
  ran.status = StatusOf(child);
  return ran;
}

std::string PrivateHost::WhyNot() {
  if (geteuid() != 0) return "only root can become other users";
  if (UserNumbers::OfThisProcess().known != UserNumbers::Known::kAll) {
    return "this is a user namespace, which may not know other users";
  }
  const pid_t child = Fork([] { return MountPrivately() ? 0 : 1; });
  return StatusOf(child) == 0 ? "" : "this process may not mount folders of its own";
}

void PrivateHost::Run(const std::vector<std::string>& programs, const std::function<void()>& body) {
  char host[] = "/tmp/harmonaize-host-XXXXXX";
  ASSERT_NE(mkdtemp(host), nullptr);
  const pid_t child = Fork([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Furnish(host, programs);
    if (!::testing::Test::HasFatalFailure()) body();
    return 0;
  });
  EXPECT_EQ(StatusOf(child), 0) << "see the failures above, on the private host";
  fs::remove_all(host);
}

}  // namespace harmonaize::testing
