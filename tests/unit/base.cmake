harmonaize_unit_test(base_test SOURCES base_test.cc LINKS harmonaize_base)
