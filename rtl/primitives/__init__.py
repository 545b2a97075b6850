"""Building blocks of every unit: members, registers, memories and state machines."""
