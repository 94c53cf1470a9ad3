"""Test equipment: a socket that does harm, between us and the real engine."""
