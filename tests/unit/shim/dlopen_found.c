// What tests/unit/shim/dlopen_caller.c opens.
__attribute__((visibility("default"))) int shim_dlopen_found(void) {
  return 1;
}
