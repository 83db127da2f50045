"""The archives of `repro`: their contents, their replay, and the removal of names and values from them."""
