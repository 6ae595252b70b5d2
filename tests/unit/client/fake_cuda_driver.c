/* Stands in for libcuda.so.1: memory from 0x700000000000 on is the device's, and from
   0x710000000000 on it is managed. */
int cuPointerGetAttribute(void* data, int attribute, unsigned long long address) {
  unsigned* value = (unsigned*)data;
  if (address < 0x700000000000ull) return 1;
  *value = attribute == 2 ? 2u : (unsigned)(address >= 0x710000000000ull);
  return 0;
}
