"""Agents: their descriptions, programs, calls and output."""
