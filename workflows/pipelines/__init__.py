"""Pipeline parallelism: schedules of stage programs, their traces, memory and step time."""
