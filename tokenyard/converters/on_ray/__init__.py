"""Tasks in the workers of a Ray cluster. Ray is imported by what is in here alone, when it is asked for."""
