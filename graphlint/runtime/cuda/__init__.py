"""Real capture on a GPU, observed: what torch did, never changed."""
