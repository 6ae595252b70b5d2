harmonaize_unit_test(
  numerics_float_formats_test SINGLE_THREADED
  SOURCES numerics_float_formats_test.cc
  LINKS harmonaize_numerics)
harmonaize_unit_test(
  numerics_narrow_floats_test SINGLE_THREADED
  SOURCES numerics_narrow_floats_test.cc
  LINKS harmonaize_numerics)
harmonaize_unit_test(
  numerics_reduce_test SINGLE_THREADED
  SOURCES numerics_reduce_test.cc numerics_reference.cc
  LINKS harmonaize_numerics)
# The reference must round a product and a sum separately, as the library promises to.
set_source_files_properties(numerics_reference.cc PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
