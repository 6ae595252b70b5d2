"""The parts of perf/compare: what is measured (options, series), how (programs, measurement), where
(machine), and what it says (results, goals, tables)."""
