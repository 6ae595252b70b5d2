#include "src/ipc/daemon_trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <vector>

#include "src/base/file_descriptor.h"

namespace harmonaize {
namespace {

// Most bytes of a daemon-user file; Linux's user names have 32 at most.
constexpr size_t kLongestFile = 256;
// Most bytes of a user's entry, whose fields the administrator's directory may fill at will.
constexpr size_t kLongestUserEntry = 1 << 20;

/// Returns why users other than root may have changed the `found` file; "" if none may.
std::string WhoElseWrites(const struct stat& found) {
  if (found.st_uid != 0) return fmt::format("belongs to user {}, not to root", found.st_uid);
  const bool link = S_ISLNK(found.st_mode);
  if (!link && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("may be written by others than root (its mode is {:04o})",
                       found.st_mode & 07777);
  }
  return "";
}

Status NotHeeded(const std::string& path, const std::string& why) {
  return InvalidUsage("{} {}", path, why);
}

/// Opens the file. Errors: a user other than root can have made it or its folder.
Result<FileDescriptor> OpenOfRoot(const std::string& path) {
  const std::string folder_path = std::filesystem::path(path).parent_path();
  const std::string name = std::filesystem::path(path).filename();
  const FileDescriptor folder(open(folder_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return ErrnoError(errno, "cannot open " + folder_path);
  struct stat found {};
  if (fstat(folder.get(), &found) != 0) return ErrnoError(errno, "cannot look at " + folder_path);
  if (std::string why = WhoElseWrites(found); !why.empty()) return NotHeeded(folder_path, why);
  // Both the name, which may be a link, and the file that it leads to are checked.
  if (fstatat(folder.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoError(errno, "cannot look at " + path);
  }
  if (std::string why = WhoElseWrites(found); !why.empty()) return NotHeeded(path, why);
  // The file may be a pipe, and opening it must not wait.
  FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return ErrnoError(errno, "cannot open " + path);
  if (fstat(file.get(), &found) != 0) return ErrnoError(errno, "cannot look at " + path);
  if (!S_ISREG(found.st_mode)) return NotHeeded(path, "is no file");
  if (std::string why = WhoElseWrites(found); !why.empty()) return NotHeeded(path, why);
  return file;
}

/// Returns the file's one word, without the blanks around it.
Result<std::string> ReadWord(int file, const std::string& path) {
  char text[kLongestFile + 1];
  const ssize_t length = read(file, text, sizeof text);
  if (length < 0) return ErrnoError(errno, "cannot read " + path);
  if (static_cast<size_t>(length) > kLongestFile) return NotHeeded(path, "is too long");
  std::string word(text, static_cast<size_t>(length));
  const auto blank = [](unsigned char letter) { return std::isspace(letter) != 0; };
  word.erase(std::ranges::find_if_not(word.rbegin(), word.rend(), blank).base(), word.end());
  word.erase(word.begin(), std::ranges::find_if_not(word, blank));
  if (word.empty()) return NotHeeded(path, "is empty");
  if (std::ranges::any_of(word, blank)) return NotHeeded(path, "holds more than one word");
  return word;
}

Result<uid_t> UserNamed(const std::string& name, const std::string& path) {
  uid_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  // The largest number, -1, stands for no user.
  if (error == std::errc() && rest == end && number != static_cast<uid_t>(-1)) return number;

  passwd entry{};
  passwd* found = nullptr;
  int failure = ERANGE;
  for (size_t bytes = 1024; failure == ERANGE && bytes <= kLongestUserEntry; bytes *= 4) {
    std::vector<char> room(bytes);
    failure = getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
  }
  if (found == nullptr) return NotHeeded(path, "names no user that this host knows");
  return entry.pw_uid;
}

/// What a client needs to hear when it meets a daemon of the namespace's outside.
Status CheckUnknownUser(const SocketPlace& place, const UserNumbers& numbers) {
  if (numbers.known == UserNumbers::Known::kCannotTell) {
    return Unavailable(
        "the daemon at {} is not believed: it runs as user {}, and without /proc/self/uid_map it "
        "cannot be told who that is",
        place.path, numbers.overflow_user);
  }
  if (place.named) return Status::Ok();
  return Unavailable(
      "the daemon at {} is not believed: it runs as a user whom this user namespace does not know; "
      "if it is the provider's, name its socket in HARMONAIZE_SOCKET",
      place.path);
}

}  // namespace

Result<std::optional<uid_t>> ReadDaemonUser(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 && errno == ENOENT) return std::optional<uid_t>();
  const Result<FileDescriptor> file = OpenOfRoot(path);
  if (!file.ok()) return file.status();
  HZ_ASSIGN_OR_RETURN(const std::string word, ReadWord(file.value().get(), path));
  HZ_ASSIGN_OR_RETURN(const uid_t user, UserNamed(word, path));
  return std::optional<uid_t>(user);
}

Status CheckDaemonUser(uid_t server, const SocketPlace& place, const std::string& daemon_user_file,
                       const UserNumbers& numbers) {
  if (numbers.MayBeAnybody(server)) return CheckUnknownUser(place, numbers);
  if (numbers.IsSelfOrRoot(server)) return Status::Ok();
  const Result<std::optional<uid_t>> provider = ReadDaemonUser(daemon_user_file);
  if (provider.ok() && *provider == server) return Status::Ok();
  return Unavailable(
      "the daemon at {} is not believed: it runs as user {}, neither as root, nor as this user "
      "({}), "
      "nor as the one whom {} names{}; if it is the provider's, root can name its user there",
      place.path, server, geteuid(), daemon_user_file,
      provider.ok() ? "" : fmt::format(" ({})", provider.status().message()));
}

}  // namespace harmonaize
