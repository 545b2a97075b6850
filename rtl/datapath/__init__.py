"""The arithmetic: one component a golden function, and the lanes that use them."""
