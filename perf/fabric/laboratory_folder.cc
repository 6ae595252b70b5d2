#include "perf/fabric/laboratory_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::fabric {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kState[] = "state.json";
constexpr char kLockEnd[] = ".lock";
/// A file in a folder of laboratories that was made for them, and goes with the last of them.
constexpr char kMadeHere[] = ".made-by-fabric";

std::string BaseFolder() {
  const char* stated = std::getenv("HARMONAIZE_FABRIC_STATE");
  if (stated != nullptr && *stated != '\0') return stated;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool own_run = ::access("/run", W_OK) == 0;
  if (!own_run && runtime != nullptr && *runtime != '\0') {
    return std::string(runtime) + "/harmonaize-fabric";
  }
  return "/run/harmonaize-fabric";
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? ErrnoError(error.value(), "cannot make folder " + path) : Status::Ok();
}

/// Makes the folder of all laboratories, and marks it where it was not there.
Status MakeBaseFolder() {
  const std::string folder = BaseFolder();
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) return ErrnoError(error.value(), "cannot make folder " + folder);
  if (made) std::ofstream(folder + "/" + kMadeHere);
  return Status::Ok();
}

/// Removes the folder of all laboratories if it was made for them and none is left. One that the
/// user has made stays.
void RemoveBaseFolder(const fs::path& folder) {
  const fs::path mark = folder / kMadeHere;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path() != mark) return;
  }
  if (::unlink(mark.c_str()) != 0 || ::rmdir(folder.c_str()) == 0) return;
  // Another laboratory has come meanwhile, and is the last one later.
  std::ofstream{mark};
}

Json ToJson(const LaboratoryState& state) {
  Json flows = Json::array();
  for (const Flow& flow : state.flows) {
    flows.push_back({{"id", flow.id},
                     {"pid", flow.pid},
                     {"from", flow.from},
                     {"to", flow.to},
                     {"bytes_per_second", flow.bytes_per_second}});
  }
  return {{"complete", state.complete}, {"message_seconds", state.message_seconds},
          {"down", state.down},         {"rerouted", state.rerouted},
          {"rates", state.rates},       {"flows", flows}};
}

LaboratoryState FromJson(const Json& json) {
  LaboratoryState state;
  state.complete = json.at("complete").get<bool>();
  state.message_seconds = json.at("message_seconds").get<double>();
  state.down = json.at("down").get<std::vector<std::string>>();
  state.rerouted = json.at("rerouted").get<bool>();
  state.rates = json.at("rates").get<std::map<std::string, std::array<double, 2>>>();
  for (const Json& flow : json.at("flows")) {
    state.flows.push_back({.id = flow.at("id").get<int>(),
                           .pid = flow.at("pid").get<pid_t>(),
                           .from = flow.at("from").get<std::string>(),
                           .to = flow.at("to").get<std::string>(),
                           .bytes_per_second = flow.at("bytes_per_second").get<double>()});
  }
  return state;
}

}  // namespace

LaboratoryFolder::LaboratoryFolder(std::string name)
    : name_(std::move(name)), path_(BaseFolder() + "/" + name_) {}

bool LaboratoryFolder::Exists() const {
  std::error_code ignored;
  return fs::is_directory(path_, ignored);
}

Status LaboratoryFolder::Make() const {
  return MakeFolder(path_);
}

Status LaboratoryFolder::Remove() const {
  std::error_code error;
  fs::remove_all(path_, error);
  return error ? ErrnoError(error.value(), "cannot remove folder " + path_) : Status::Ok();
}

Result<LaboratoryState> LaboratoryFolder::Load() const {
  std::ifstream file(path_ + "/" + kState);
  // There is no state yet: the maker of the folder came no further.
  if (!file) return LaboratoryState{};
  try {
    return FromJson(Json::parse(file));
  } catch (const Json::exception& error) {
    return SystemError("{}/{} is damaged ({}); 'fabric down --name {}' cleans up", path_, kState,
                       error.what(), name_);
  }
}

Status LaboratoryFolder::Save(const LaboratoryState& state) const {
  return Write(kState, JsonText(ToJson(state), 2) + "\n");
}

Status LaboratoryFolder::Write(const std::string& file, const std::string& text) const {
  const std::string path = path_ + "/" + file;
  HZ_RETURN_IF_ERROR(MakeFolder(fs::path(path).parent_path()));
  // Readers see the old file or the new one, complete.
  const std::string fresh = path + ".new";
  std::ofstream stream(fresh);
  stream << text << std::flush;
  if (!stream || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, "cannot write " + path);
  }
  return Status::Ok();
}

std::vector<std::string> LaboratoryFolder::Names() {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(BaseFolder(), error); entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<LaboratoryLock> LaboratoryLock::Take(const std::string& name) {
  HZ_RETURN_IF_ERROR(MakeBaseFolder());
  LaboratoryLock lock;
  lock.path_ = BaseFolder() + "/" + name + kLockEnd;
  for (;;) {
    lock.fd_ = FileDescriptor(::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock.fd_.valid()) return ErrnoError(errno, "cannot open " + lock.path_);
    while (::flock(lock.fd_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoError(errno, "cannot lock " + lock.path_);
    }
    // The previous holder may have removed the file; another lock counts then.
    struct stat held {};
    struct stat there {};
    if (::fstat(lock.fd_.get(), &held) == 0 && ::stat(lock.path_.c_str(), &there) == 0 &&
        held.st_ino == there.st_ino && held.st_dev == there.st_dev) {
      return lock;
    }
  }
}

void LaboratoryLock::RemoveFile() const {
  ::unlink(path_.c_str());
  RemoveBaseFolder(fs::path(path_).parent_path());
}

}  // namespace harmonaize::fabric
