"""The tests that a program has to pass while `reduce` makes it smaller."""
