#!/bin/bash
# Asks the store itself: what the agent says of it does not count.
if [ "$(ask GET total)" = 54 ] && [ "$(ask GET orders)" = "19 4 23 8" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
