// Linked against one libnccl.so.2 and run with ours preloaded: ours has to be the only one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "include/nccl.h"

static int ExpectOurs(const char* what, void* symbol) {
  if (symbol != NULL) return 0;
  fprintf(stderr, "%s is not Harmonaize\n", what);
  return 1;
}

static int CountMapped(const char* part) {
  char line[4096];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    count += strstr(line, part) != NULL;
  }
  if (maps != NULL) fclose(maps);
  return count;
}

int main(void) {
  int wrong = 0;
  int version = 0;
  wrong += ncclGetVersion(&version) != ncclSuccess || version != NCCL_VERSION_CODE;
  wrong += ExpectOurs("the program's libnccl.so.2", dlsym(RTLD_DEFAULT, "hzGetVersion"));
  void* opened = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  wrong += opened == NULL || ExpectOurs("dlopen's libnccl.so.2", dlsym(opened, "hzGetVersion"));
  if (CountMapped("fake_stock") != 0) {
    fprintf(stderr, "the library that the program was linked against was loaded too\n");
    ++wrong;
  }
  return wrong != 0;
}
