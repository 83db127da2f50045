"""Split a text into the tokens of the grammar: find where words, params, values and comments begin and end."""
