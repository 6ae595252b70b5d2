#pragma once

// What a build with sanitizers leaves out of a test. They make it five to twenty times slower, and
// find their faults in code paths, not in values: a test that goes through all combinations of many
// things goes there through a part of them that still takes every path, and the release build goes
// through all. `if (kSanitized)` in a test says which part.
//
// A test program of one thread that does not run under the thread sanitizer at all says so where it
// is declared; see SINGLE_THREADED in tests/CMakeLists.txt.

namespace harmonaize {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace harmonaize
