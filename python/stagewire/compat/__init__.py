"""Other engines' Python interfaces over stagewire."""
