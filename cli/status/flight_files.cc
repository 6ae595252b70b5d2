#include "cli/status/flight_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/status/flight_recorder.h"
#include "cli/status/pickle.h"
#include "cli/status/ras_document.h"
#include "cli/text_table.h"
#include "src/base/file_descriptor.h"
#include "src/base/json_text.h"
#include "src/base/wall_clock.h"
#include "src/base/write_whole.h"
#include "src/ipc/http_client.h"

namespace harmonaize {
namespace {

Result<std::vector<Json>> FetchFlights(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(socket));
  HZ_ASSIGN_OR_RETURN(const Json jobs, GetDocument(daemon, "/v1/jobs"));
  std::vector<Json> flights;
  for (const Json& job : ListAt(jobs, "jobs")) {
    const Json& id = At(job, "id");
    if (!id.is_string() || ListAt(job, "communicators").empty()) continue;
    Result<Json> flight =
        GetDocument(daemon, "/v1/jobs/" + EncodeForUrl(id.get<std::string>()) + "/flight");
    // The job may have gone meanwhile.
    if (flight.status().code() == Code::kInvalidUsage) continue;
    if (!flight.ok()) return flight.status();
    flights.push_back(std::move(*flight));
  }
  return flights;
}

/// Returns whether a text is a communicator's id, and nothing that leads to another folder.
bool IsId(const std::string& text) {
  constexpr size_t kMostDigits = 32;
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Whose a folder may be, besides this user's, and who else may write there.
enum class FolderRule {
  kNamed,  ///< Root's too. Where all may write, each removes no more than what is his own.
  kOwn,    ///< Nobody else's, and nobody else may write there.
};

bool Meets(FolderRule rule, const struct stat& folder) {
  const bool own = folder.st_uid == geteuid();
  if (rule == FolderRule::kOwn) return own && (folder.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  const bool open_to_all = (folder.st_mode & S_IWOTH) != 0 && (folder.st_mode & S_ISVTX) == 0;
  return (own || folder.st_uid == 0) && !open_to_all;
}

/// Opens a folder, and makes it, closed to others, where it is missing. A link does not count as
/// one: another user's would lead to any file.
Result<FileDescriptor> OpenFolder(int parent, const std::string& path, FolderRule rule) {
  if (mkdirat(parent, path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, fmt::format("cannot make the folder {}", path));
  }
  FileDescriptor folder(
      openat(parent, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return ErrnoError(errno, fmt::format("cannot open the folder {}", path));
  struct stat found {};
  if (fstat(folder.get(), &found) != 0) return ErrnoError(errno, "cannot look at " + path);
  if (Meets(rule, found)) return folder;
  return InvalidUsage("{} is another user's folder, or others can write there; name one of yours",
                      path);
}

/// Returns whether a folder is this user's or root's, and no other user can replace what is in it.
Result<bool> IsSafe(const FileDescriptor& folder) {
  struct stat found {};
  if (fstat(folder.get(), &found) != 0) return ErrnoError(errno, "cannot look at a folder");
  return Meets(FolderRule::kNamed, found);
}

/// Opens a folder on the way of a path, and makes it where it is missing. `*safe` says whether the
/// folders so far are those of this user and of root; nothing is made behind a stranger's, which
/// may lead anywhere by a link.
Result<FileDescriptor> Enter(const FileDescriptor& at, const std::string& name, bool* safe) {
  struct stat folder {};
  if (fstat(at.get(), &folder) != 0) return ErrnoError(errno, "cannot look at a folder");
  *safe = *safe && Meets(FolderRule::kNamed, folder);
  // Where all may write, links are anybody's.
  const int no_link = (folder.st_mode & S_IWOTH) != 0 ? O_NOFOLLOW : 0;
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  FileDescriptor next(openat(at.get(), name.c_str(), kFlags | no_link));
  if (!next.valid() && errno == ENOENT) {
    if (!*safe) {
      return InvalidUsage("the folder {} is not made behind one of another user; make it yourself",
                          name);
    }
    if (mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoError(errno, fmt::format("cannot make the folder {}", name));
    }
    next = FileDescriptor(openat(at.get(), name.c_str(), kFlags | O_NOFOLLOW));
  }
  if (!next.valid()) return ErrnoError(errno, fmt::format("cannot open the folder {}", name));
  return next;
}

/// Opens the folder at a path that a user has named, and makes each folder of it that is missing.
Result<FileDescriptor> OpenPath(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  std::vector<std::string> names;
  for (const std::filesystem::path& name : whole.relative_path()) {
    if (!name.empty()) names.push_back(name.string());
  }
  FileDescriptor at(open(whole.is_absolute() ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return ErrnoError(errno, "cannot open the folder that the path begins at");
  bool safe = true;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    Result<FileDescriptor> next = Enter(at, names[i], &safe);
    if (!next.ok()) return Status(next.status().code(), path + ": " + next.status().message());
    at = std::move(*next);
  }
  HZ_ASSIGN_OR_RETURN(const bool last_is_safe, IsSafe(at));
  if (names.size() > 1 && !(safe && last_is_safe)) {
    return InvalidUsage(
        "{} lies behind a folder of another user, who could lead it anywhere; name a folder of "
        "yours",
        path);
  }
  return OpenFolder(at.get(), names.empty() ? "." : names.back(), FolderRule::kNamed);
}

/// Writes a file that its owner alone can read, in place of an earlier one.
Status WriteFile(const FileDescriptor& folder, const std::string& name,
                 const std::string& content) {
  const std::string unfinished = "." + name;
  unlinkat(folder.get(), unfinished.c_str(), 0);
  const FileDescriptor file(openat(folder.get(), unfinished.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto failure = [&] { return ErrnoError(errno, "cannot make the file " + name); };
  if (!file.valid()) return failure();
  HZ_RETURN_IF_ERROR(WriteWhole(file.get(), content, name));
  if (renameat(folder.get(), unfinished.c_str(), folder.get(), name.c_str()) != 0) {
    return failure();
  }
  return Status::Ok();
}

/// Writes the files of one communicator. Returns the number of ranks.
Result<size_t> WriteRanks(const Json& communicator, const FileDescriptor& folder, bool as_json) {
  size_t written = 0;
  for (const Json& rank : ListAt(communicator, "ranks")) {
    const nlohmann::ordered_json dump = FlightRecorderDump(communicator, rank);
    const std::string name = fmt::format("nccl_trace_rank_{}", CountAt(rank, "rank"));
    HZ_RETURN_IF_ERROR(as_json ? WriteFile(folder, name + ".json", JsonText(dump, 1))
                               : WriteFile(folder, name, Pickle(dump)));
    ++written;
  }
  return written;
}

}  // namespace

Result<std::string> WriteFlightFiles(const std::string& socket, const std::string& folder,
                                     bool as_json) {
  HZ_ASSIGN_OR_RETURN(const std::vector<Json> flights, FetchFlights(socket));
  HZ_ASSIGN_OR_RETURN(const FileDescriptor all, OpenPath(folder));
  TextTable table({"communicator", "name", "folder", "ranks here", "of"}, 3);
  for (const Json& flight : flights) {
    for (const Json& communicator : ListAt(flight, "communicators")) {
      const std::string id = TextAt(communicator, "id");
      if (!IsId(id)) continue;
      HZ_ASSIGN_OR_RETURN(const FileDescriptor own, OpenFolder(all.get(), id, FolderRule::kOwn));
      HZ_ASSIGN_OR_RETURN(const size_t written, WriteRanks(communicator, own, as_json));
      const std::string name = TextAt(communicator, "name");
      table.Add({id, name.empty() ? kMissing : name, fmt::format("{}/{}", folder, id),
                 std::to_string(written), TextAt(communicator, "size")});
      if (At(communicator, "whole") == false) table.AddNote("more is in flight than is written");
    }
  }
  if (table.empty()) return std::string("no communicators\n");
  std::string text;
  table.Print(&text);
  return text;
}

Result<std::string> FetchRas(const std::string& socket) {
  const auto start = std::chrono::steady_clock::now();
  HZ_ASSIGN_OR_RETURN(const std::vector<Json> flights, FetchFlights(socket));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return RasDocument(flights, UnixSeconds(), took.count());
}

}  // namespace harmonaize
