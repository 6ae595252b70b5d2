#pragma once

#include <map>
#include <string>
#include <string_view>

/// \file
/// Settings of users for the library: environment variables, and NCCL's configuration files for
/// variables that the environment lacks. The user's file is the one that NCCL_CONF_FILE names, else
/// ~/.nccl.conf; the system's is /etc/nccl.conf, and applies where neither of the others sets a
/// variable. A program that runs with more rights than its user (setuid, setgid, capabilities)
/// reads only the system's file, because the user who starts it must not steer it.
///
/// A line of such a file is `NAME=value`, without spaces around either. Lines that begin with # and
/// lines without = are ignored.

namespace harmonaize {

/// Returns the value of `name`, as std::getenv does; nullptr where it is not set. The files are
/// read once, at the first call. Thread: any, while none changes the environment.
const char* Setting(const char* name) noexcept;

using SettingMap = std::map<std::string, std::string, std::less<>>;

/// Adds the settings in the text of a configuration file to `settings`; existing ones stay.
void AddSettings(std::string_view text, SettingMap* settings);

}  // namespace harmonaize
