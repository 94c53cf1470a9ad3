"""The parts of a gate's judgement; `analysis/gate.py` puts them together. Explained in docs/gates.md."""
