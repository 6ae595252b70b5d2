#pragma once

// Parts of a test that a build with sanitizers leaves out. Sanitizers make tests five to twenty
// times slower, and find faults in code paths, not in values. So a test of all combinations of many
// things runs only a part of them with sanitizers, one that still takes every path; the release
// build runs all. `if (kSanitized)` in a test states the part.
//
// A test program of one thread that does not run under the thread sanitizer is marked where it is
// declared; see SINGLE_THREADED in tests/CMakeLists.txt.

namespace harmonaize {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace harmonaize
