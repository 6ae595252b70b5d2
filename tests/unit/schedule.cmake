harmonaize_unit_test(
  schedule_test SINGLE_THREADED
  SOURCES schedule_check_test.cc schedule_interpreter.cc schedule_mutation_test.cc
          schedule_one_host_test.cc schedule_programs.cc schedule_programs_test.cc schedule_test.cc
          schedule_testing.cc
  LINKS harmonaize_schedule)

harmonaize_unit_test(
  schedule_algorithms_test SINGLE_THREADED
  SOURCES schedule_algorithms_test.cc schedule_interpreter.cc schedule_testing.cc
          schedule_traffic_test.cc
  LINKS harmonaize_schedule)

harmonaize_unit_test(
  schedule_packing_test SINGLE_THREADED
  SOURCES schedule_fabrics.cc schedule_interpreter.cc schedule_packing_test.cc schedule_testing.cc
  LINKS harmonaize_schedule)
