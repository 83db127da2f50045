"""Random programs: small examples of all primitives, changed, joined and put into one another."""
