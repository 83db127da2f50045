"""A text to the tokens of the grammar: where words, params, values and comments begin and end."""
