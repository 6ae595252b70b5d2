#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Longest time that a word may stand for, in seconds: a year.
inline constexpr double kMostWordSeconds = 366 * 86400.0;
/// Most time, in seconds, that a job can ask for beyond a deadline: what daemons take.
inline constexpr double kMostMoreSeconds = 30 * 86400.0;
/// Stands for a moment that nobody knows yet.
inline constexpr char kUnknownMoment[] = "unknown";

/// Returns whether a word is a number without a unit.
bool IsNumberAlone(std::string_view word);

/// Returns the seconds that "90s", "10min", "1h30m", "1.5h" or "2d" stand for. Errors:
/// kInvalidArgument, with what is possible: also for a number without a unit, which people mean in
/// different ones.
Result<double> SecondsInWord(std::string_view word, double most_seconds = kMostWordSeconds);

/// Returns a moment as the daemon reads it, of a word such as "2026-12-01T02:00:00Z",
/// "2026-12-01T04:00+02:00", or "2026-12-01 02:00", which is in UTC. Errors: kInvalidArgument.
Result<std::string> MomentInWord(std::string_view word);
/// Returns the moment that is so many seconds from now, as the daemon reads it.
std::string MomentIn(double seconds);

// Validators of options: each returns "" or the error in the text, as CLI::Validator requires.

std::string CheckSecondsWord(const std::string& word);
std::string CheckMoreTimeWord(const std::string& word);
/// Takes kUnknownMoment, too.
std::string CheckMomentWord(const std::string& word);

}  // namespace harmonaize
