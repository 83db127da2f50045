"""A user's own Python: functions, modules and plug-ins, found by name."""
