#pragma once

#include <map>
#include <string>
#include <string_view>

/// \file
/// What users set for the library: by variables of the environment, and by NCCL's configuration
/// files for variables that the environment lacks. The user's file is the one that NCCL_CONF_FILE
/// names, else ~/.nccl.conf; the system's is /etc/nccl.conf, and says what neither of the others
/// does. A program that runs with more rights than its user (setuid, setgid, capabilities) reads
/// the system's file alone: whoever starts it must not steer it.
///
/// A line of such a file is `NAME=value`, without spaces around either. Lines that begin with # and
/// lines without = mean nothing.

namespace harmonaize {

/// The value of `name`, as std::getenv has it; nullptr where it is not set. The files are read at
/// the first call and never again. Thread safe, as far as nobody changes the environment.
const char* Setting(const char* name) noexcept;

using SettingMap = std::map<std::string, std::string, std::less<>>;

/// Adds what the text of a configuration file says to `settings`; what is there already stays.
void AddSettings(std::string_view text, SettingMap* settings);

}  // namespace harmonaize
