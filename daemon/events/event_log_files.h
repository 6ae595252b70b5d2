#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Makes the file of a log ready for SQLite: its folder, if that is missing, and the file itself,
/// so that this user alone can read it and the journals that SQLite puts beside it. Errors:
/// kSystemError where others could have put files into the folder, or something else has the file's
/// name.
Status PrepareLogFile(const std::string& path);

/// Size of the room in the journal that is taken from the disk when a log is opened, in bytes:
/// twice what the journal has when it is moved to the file. Giving up old events writes to the
/// journal before it frees anything, so on a full disk it needs the second half.
inline constexpr int64_t kJournalRoomBytes = 2 << 20;

/// Takes the room for the journal of an open log from the disk, as far as there is some.
void ReserveLogJournal(const std::string& path);

/// Gives the file the name PATH.damaged, in place of an earlier one, and removes its journals.
/// Nothing may have it open. Errors: kSystemError.
Status SetLogFileAside(const std::string& path);

/// Returns whether the disk has less room than a new log and its journal need.
bool HasNoRoomForLog(const std::string& path);

/// Removes what was set aside, which makes room on a full disk. Returns whether there was anything.
bool RemoveLogFileSetAside(const std::string& path);

}  // namespace harmonaize::daemon
