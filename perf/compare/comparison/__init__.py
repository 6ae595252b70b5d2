"""The parts of perf/compare: what is measured (options, series; fabric_options, fabric_series), how
(programs, measurement, laboratory), where (machine; one_host, across_hosts), and what it says
(results, goals, tables; volumes, fabric_goals, fabric_tables). driver.py puts them together."""
