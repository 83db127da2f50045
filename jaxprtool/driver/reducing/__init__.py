"""What has to stay true of a program while `reduce` makes it smaller."""
