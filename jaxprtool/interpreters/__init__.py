"""One module for each interpreter: its contract, trace, tracer and rule table."""
