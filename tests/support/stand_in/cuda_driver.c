/* Stands in for libcuda.so.1, as far as it is asked which context a thread has. A test sets the
   context; any address will do. */

#include <stddef.h>

static _Thread_local void* current;

void StandInSetContext(void* context) {
  current = context;
}

int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  current = context;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 0;
  return 0;
}

int cuPointerGetAttribute(void* data, int attribute, unsigned long long address) {
  (void)data;
  (void)attribute;
  (void)address;
  return 1;
}
