"""How agents are called."""
