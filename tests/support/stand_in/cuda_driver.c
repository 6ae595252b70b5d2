/* Stands in for libcuda.so.1, as far as it is asked which context a thread has. A test sets the
   context; any address will do. */

#include <stddef.h>

static _Thread_local void* current;
static int primary_is_active;
static _Thread_local int next_error;

void StandInSetContext(void* context) {
  current = context;
}

/* Sets whether the only device has its primary context in use. */
void StandInSetPrimary(int is_active) {
  primary_is_active = is_active;
}

/* Sets the answer of this thread's next cuCtxSetCurrent. */
void StandInFailNext(int error) {
  next_error = error;
}

int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  const int error = next_error;
  next_error = 0;
  if (error == 0) current = context;
  return error;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = primary_is_active;
  return 0;
}

int cuPointerGetAttribute(void* data, int attribute, unsigned long long address) {
  (void)data;
  (void)attribute;
  (void)address;
  return 1;
}
