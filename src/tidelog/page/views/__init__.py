"""What single views ask for when they are open, beyond the state that every browser gets."""
