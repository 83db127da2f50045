"""The tokens of the grammar to programs: names, definitions, and what other releases pass around."""
