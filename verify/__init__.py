"""What keeps the project honest: fuzzing, mutation, coverage."""
