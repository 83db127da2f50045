"""Random programs: small examples of all primitives, mutated, joined and nested in one another."""
