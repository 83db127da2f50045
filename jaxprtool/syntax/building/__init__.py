"""Build programs from the tokens of the grammar: names, definitions, and the values that only other
releases pass around.
"""
