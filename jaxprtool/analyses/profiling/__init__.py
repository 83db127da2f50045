"""How long the equations of a program take, and one program beside another."""
