// Runs a program as a service's unit file says, as far as that goes without systemd:
//
//     as_service UNIT PROGRAM ARGUMENT...
//
// In force are the unit's user with its groups, UMask, Environment, Limit*, OOMScoreAdjust,
// CapabilityBoundingSet, AmbientCapabilities, NoNewPrivileges, RestrictAddressFamilies,
// RestrictNamespaces and SystemCallFilter, whose groups systemd-analyze resolves. Limits of control
// groups and views of files are not. Run it as root. Status 126: it could not.

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "as_service: %s: %s\n", what.c_str(), std::strerror(errno));
  _exit(126);
}

[[noreturn]] void Reject(const std::string& what) {
  std::fprintf(stderr, "as_service: %s\n", what.c_str());
  _exit(126);
}

void Require(bool well, const std::string& what) {
  if (!well) Fail(what);
}

Words SplitWords(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The settings of a unit file: each key with its values, in the order in which they stand.
class Unit {
 public:
  explicit Unit(const char* path) {
    std::ifstream file(path);
    if (!file) Fail(path);
    for (std::string line; std::getline(file, line);) {
      const size_t equals = line.find('=');
      if (line.empty() || line[0] == '#' || line[0] == '[' || equals == std::string::npos) continue;
      values_[line.substr(0, equals)].push_back(line.substr(equals + 1));
    }
  }
  bool Has(const std::string& key) const { return values_.contains(key); }
  Words All(const std::string& key) const { return Has(key) ? values_.at(key) : Words(); }
  std::string Last(const std::string& key) const { return Has(key) ? values_.at(key).back() : ""; }

 private:
  std::map<std::string, Words> values_;
};

// ---------------------------------------------------------------------------------------------
// System calls

/// The names that a group of systemd's stands for.
void AddGroup(const std::string& group, std::set<std::string>* names) {
  FILE* const output = popen(("systemd-analyze --no-pager syscall-filter " + group).c_str(), "re");
  Require(output != nullptr, "systemd-analyze");
  char line[256];
  Words members;
  while (std::fgets(line, sizeof line, output) != nullptr) {
    const Words words = SplitWords(line);
    if (line[0] == ' ' && !words.empty() && words[0] != "#") members.push_back(words[0]);
  }
  if (pclose(output) != 0 || members.empty()) Reject("systemd-analyze does not know " + group);
  for (const std::string& member : members) {
    if (member[0] == '@') {
      AddGroup(member, names);
    } else {
      names->insert(member);
    }
  }
}

std::set<std::string> Resolve(const Words& names) {
  std::set<std::string> resolved;
  for (const std::string& name : names) {
    if (name[0] == '@') {
      AddGroup(name, &resolved);
    } else {
      resolved.insert(name);
    }
  }
  return resolved;
}

/// As systemd.exec(5) says of SystemCallFilter: a first line of what is allowed, and then what is
/// added to it or taken from it. @default is always allowed.
std::set<std::string> AllowedCalls(const Unit& unit) {
  std::set<std::string> allowed = Resolve({"@default"});
  for (const std::string& line : unit.All("SystemCallFilter")) {
    const bool taken = line[0] == '~';
    if (taken && allowed.empty()) Reject("a SystemCallFilter that begins with what is forbidden");
    for (const std::string& name : Resolve(SplitWords(taken ? line.substr(1) : line))) {
      if (taken) {
        allowed.erase(name);
      } else {
        allowed.insert(name);
      }
    }
  }
  return allowed;
}

void FilterCalls(const std::set<std::string>& allowed) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  Require(filter != nullptr, "seccomp_init");
  for (const std::string& name : allowed) {
    const int number = seccomp_syscall_resolve_name(name.c_str());
    // Of another kind of processor, or of a later kernel.
    if (number < 0) continue;
    errno = -seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
    Require(errno == 0, name);
  }
  errno = -seccomp_load(filter);
  Require(errno == 0, "seccomp_load");
  seccomp_release(filter);
}

int AddressFamily(const std::string& name) {
  static const std::map<std::string, int> kFamilies = {{"AF_UNIX", AF_UNIX},
                                                       {"AF_INET", AF_INET},
                                                       {"AF_INET6", AF_INET6},
                                                       {"AF_NETLINK", AF_NETLINK}};
  if (!kFamilies.contains(name)) Reject("an address family that is not known here: " + name);
  return kFamilies.at(name);
}

/// What SCMP_A0 is, which is C.
scmp_arg_cmp FirstArgument(scmp_compare comparison, uint64_t first, uint64_t second = 0) {
  return {.arg = 0, .op = comparison, .datum_a = first, .datum_b = second};
}

/// A second filter, of which the stricter answer counts.
void RestrictArguments(const Unit& unit) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  Require(filter != nullptr, "seccomp_init");
  std::set<int> families;
  for (const std::string& name : SplitWords(unit.Last("RestrictAddressFamilies"))) {
    families.insert(AddressFamily(name));
  }
  const auto forbid_family = [&](int family) {
    errno = -seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                              FirstArgument(SCMP_CMP_EQ, static_cast<uint64_t>(family)));
    Require(errno == 0, "socket");
  };
  for (int family = 0; family < AF_MAX; ++family) {
    if (!families.contains(family)) forbid_family(family);
  }
  if (unit.Last("RestrictNamespaces") == "yes") {
    constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    for (int bit = 0; bit < 32; ++bit) {
      const uint64_t flag = uint64_t{1} << bit;
      if ((kNamespaces & flag) == 0) continue;
      errno = -seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                FirstArgument(SCMP_CMP_MASKED_EQ, flag, flag));
      Require(errno == 0, "clone");
    }
    // Its flags lie in memory, where no filter sees them: libraries then take clone.
    errno = -seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    Require(errno == 0, "clone3");
  }
  errno = -seccomp_load(filter);
  Require(errno == 0, "seccomp_load");
  seccomp_release(filter);
}

// ---------------------------------------------------------------------------------------------
// Limits and rights

void SetLimits(const Unit& unit) {
  const std::map<std::string, int> limits = {
      {"LimitNOFILE", RLIMIT_NOFILE}, {"LimitMEMLOCK", RLIMIT_MEMLOCK}, {"LimitCORE", RLIMIT_CORE}};
  for (const auto& [key, resource] : limits) {
    if (!unit.Has(key)) continue;
    const std::string value = unit.Last(key);
    const rlim_t wanted = value == "infinity" ? RLIM_INFINITY : std::stoull(value);
    rlimit limit{wanted, wanted};
    const auto number = static_cast<__rlimit_resource>(resource);
    if (setrlimit(number, &limit) == 0) continue;
    // Whoever may not raise it takes what there is, as systemd does.
    Require(errno == EPERM && getrlimit(number, &limit) == 0, key);
    limit.rlim_cur = limit.rlim_max;
    Require(setrlimit(number, &limit) == 0, key);
  }
  if (unit.Has("OOMScoreAdjust")) {
    std::ofstream("/proc/self/oom_score_adj") << unit.Last("OOMScoreAdjust") << std::flush;
  }
  if (unit.Has("UMask")) umask(static_cast<mode_t>(std::stoul(unit.Last("UMask"), nullptr, 8)));
}

std::set<int> Capabilities(const std::string& names) {
  std::set<int> numbers;
  for (const std::string& name : SplitWords(names)) {
    if (name != "CAP_NET_ADMIN") Reject("a capability that is not known here: " + name);
    numbers.insert(CAP_NET_ADMIN);
  }
  return numbers;
}

void DropFromBoundingSet(const std::set<int>& kept) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if (kept.contains(capability)) continue;
    Require(prctl(PR_CAPBSET_DROP, capability) == 0, "the bounding set");
  }
}

void BecomeUserOf(const Unit& unit) {
  const std::string name = unit.Last("User");
  const passwd* const user = getpwnam(name.c_str());
  if (user == nullptr) Reject("there is no user " + name);
  Require(initgroups(name.c_str(), user->pw_gid) == 0, "the groups");
  // What is to be ambient must outlive the change of the user.
  Require(prctl(PR_SET_KEEPCAPS, 1) == 0, "keeping capabilities");
  Require(setresgid(user->pw_gid, user->pw_gid, user->pw_gid) == 0, "the group");
  Require(setresuid(user->pw_uid, user->pw_uid, user->pw_uid) == 0, "the user");
}

void KeepOnly(const std::set<int>& ambient) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (const int capability : ambient) {
    auto& word = data[capability / 32];
    word.permitted |= 1u << (capability % 32);
  }
  for (auto& word : data) word.effective = word.inheritable = word.permitted;
  Require(syscall(SYS_capset, &header, data) == 0, "capset");
  for (const int capability : ambient) {
    Require(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0, "ambient");
  }
}

void SetEnvironment(const Unit& unit) {
  for (const std::string& line : unit.All("Environment")) {
    for (const std::string& setting : SplitWords(line)) {
      const size_t equals = setting.find('=');
      setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Reject("usage: as_service UNIT PROGRAM ARGUMENT...");
  const Unit unit(argv[1]);
  // Before the user changes, who may not be let into the program's folder.
  const int program = open(argv[2], O_PATH | O_CLOEXEC);
  Require(program >= 0, argv[2]);
  if (unit.Last("SystemCallErrorNumber") != "EPERM") Reject("another error number than EPERM");
  const std::set<std::string> allowed = AllowedCalls(unit);
  SetEnvironment(unit);
  SetLimits(unit);
  DropFromBoundingSet(Capabilities(unit.Last("CapabilityBoundingSet")));
  BecomeUserOf(unit);
  KeepOnly(Capabilities(unit.Last("AmbientCapabilities")));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (unit.Last("NoNewPrivileges") == "yes") {
    Require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  }
  RestrictArguments(unit);
  FilterCalls(allowed);
  execv(("/proc/self/fd/" + std::to_string(program)).c_str(), argv + 2);
  Fail(argv[2]);
}
