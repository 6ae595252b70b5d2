harmonaize_unit_test(
  planner_test
  SOURCES planner_cost_rounds_test.cc planner_host_costs_test.cc planner_inline_choice_test.cc
  LINKS harmonaize_planner)
add_library(planner_fabrics STATIC "${CMAKE_CURRENT_LIST_DIR}/planner_fabrics.cc")
target_compile_definitions(planner_fabrics
                           PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")
target_link_libraries(planner_fabrics PUBLIC harmonaize_planner GTest::gtest)
harmonaize_unit_test(
  planner_fabric_test SINGLE_THREADED
  SOURCES planner_cost_model_test.cc planner_fabric_model_test.cc planner_planner_test.cc
          planner_rated_models_test.cc
  LINKS planner_fabrics harmonaize_executor)
