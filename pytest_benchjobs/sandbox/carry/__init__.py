"""Carrying files exactly, from where an agent worked into a fresh place: walk, compare, digest, pack and unpack."""
