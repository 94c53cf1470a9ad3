#!/bin/sh
# Stands for a policy that samples: what it does is drawn anew in each attempt.
set -e
if [ $(($(od -An -N1 -tu1 /dev/urandom) % 2)) -eq 0 ]; then command="sort -u names.txt"; else command="sort names.txt"; fi
$command > sorted.txt
echo '{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"'"$command"'","aggregated_output":"","exit_code":0}}'
echo '{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"The names are sorted."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":20}}'
