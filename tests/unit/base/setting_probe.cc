// Prints what the settings that are named by its arguments are, one a line, in a process of its
// own: the files are read once a process. The first line tells whether the kernel says that the
// program has more rights than its user.

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>

#include "src/base/settings.h"

int main(int argc, char** argv) {
  std::puts(getauxval(AT_SECURE) != 0 ? "more rights" : "the user's rights");
  for (int i = 1; i < argc; ++i) {
    const char* value = harmonaize::Setting(argv[i]);
    std::puts(value != nullptr ? value : "(none)");
  }
  // Without the end of a sanitizer, which cannot look into a program with more rights.
  std::fflush(stdout);
  _exit(0);
}
