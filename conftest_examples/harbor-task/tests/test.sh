#!/bin/bash
# Harbor's contract: the score goes to /logs/verifier/reward.txt (or reward.json); the exit status says nothing.
if diff /tests/expected.txt /app/sorted.txt; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
