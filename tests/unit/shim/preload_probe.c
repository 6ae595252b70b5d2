// Linked against one libnccl.so.2 and run with ours preloaded: ours has to be the only one, by
// whatever name it is opened, but where the environment says otherwise.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "include/nccl.h"

void* shim_dlopen_early(void);
void* shim_dlopen_from_caller(const char* name);

static int wrong = 0;

static void Expect(int so, const char* what) {
  if (so) return;
  fprintf(stderr, "not so: %s\n", what);
  ++wrong;
}

static int IsOurs(void* library) {
  return library != NULL && dlsym(library, "hzGetVersion") != NULL;
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

static void ExpectTaken(void) {
  Expect(IsOurs(shim_dlopen_early()), "a constructor that runs before ours gets ours");
  Expect(IsOurs(dlopen("libnccl.so", RTLD_NOW | RTLD_LOCAL)), "libnccl.so is ours");
  Expect(IsOurs(dlopen(FAKE_STOCK, RTLD_NOW | RTLD_GLOBAL)), "the path of stock NCCL is ours");
  Expect(IsOurs(dlopen("/nonexistent/libnccl.so.2.28.9", RTLD_LAZY)), "a path to nothing is ours");
  Expect(IsOurs(dlopen(FAKE_STOCK, RTLD_NOW | RTLD_NOLOAD)), "what is loaded already is ours");
  void* const handle = dlopen(FAKE_STOCK, RTLD_NOW);
  Expect(handle == dlopen("libnccl.so.2", RTLD_NOW), "all names give one handle");
  Expect(dlclose(handle) == 0 && IsOurs(handle), "a handle is counted");
  int version = 0;
  Expect(ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE, "our version");
  Expect(CountMapped("fake_stock") == 0, "stock NCCL is not loaded beside us");
}

static void ExpectOff(void) {
  void* const stock = dlopen(FAKE_STOCK, RTLD_NOW | RTLD_LOCAL);
  Expect(stock != NULL && dlsym(stock, "FakeStockCalls") != NULL, "the path of stock is stock");
  Expect(IsOurs(dlopen("libnccl.so.2", RTLD_NOW)), "our SONAME is ours");
}

static void ExpectFallback(void) {
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  Expect(ncclGetUniqueId(&id) == ncclRemoteError && id.internal[0] == 'F',
         "a call goes on to stock NCCL");
  Expect(IsOurs(dlopen(FAKE_STOCK, RTLD_NOW | RTLD_LOCAL)), "the path of stock NCCL is ours");
}

/// Names that are not NCCL's reach the loader as if we were not there.
static void ExpectOthersUnchanged(void) {
  Expect(dlopen(NULL, RTLD_NOW) != NULL && dlopen("", RTLD_NOW) != NULL, "the program itself");
  Expect(dlopen("libnccl-net.so", RTLD_NOW) == NULL, "a plugin of NCCL's is not NCCL");
  const char* const why = dlerror();
  Expect(why != NULL && strstr(why, "libnccl-net.so") != NULL, "dlerror names what is not there");
  Expect(dlopen("libshim_dlopen_found.so", RTLD_NOW) == NULL, "the program has no such RUNPATH");
  Expect(shim_dlopen_from_caller("libshim_dlopen_found.so") != NULL, "the caller's RUNPATH");
  Expect(shim_dlopen_from_caller("$ORIGIN/found/libshim_dlopen_found.so") != NULL,
         "the caller's $ORIGIN");
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  Expect(IsOurs(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)), "libnccl.so.2 is ours");
  Expect(dlsym(RTLD_DEFAULT, "hzGetVersion") != NULL, "the program's libnccl.so.2 is ours");
  ExpectOthersUnchanged();
  if (strcmp(mode, "taken") == 0) ExpectTaken();
  if (strcmp(mode, "off") == 0) ExpectOff();
  if (strcmp(mode, "fallback") == 0) ExpectFallback();
  return wrong != 0;
}
