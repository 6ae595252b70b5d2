harmonaize_unit_test(
  planner_test
  SOURCES planner_host_costs_test.cc planner_inline_choice_test.cc
  LINKS harmonaize_planner)
