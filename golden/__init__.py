"""The integer model: the specification that every other part is held to."""
