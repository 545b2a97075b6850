"""The chips of a board, modelled, and what is played on them."""
