#!/bin/sh
# An agent without a model: it asks the server it was given, and writes the answer in the form of the skill.
server=$1 command=$2
thing=$(sed -n 's/.*about \([a-z]*\) to.*/\1/p')    # the problem statement is its standard input
number=$(
    {
        echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
        echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stock","arguments":{"thing":"'"$thing"'"}}}'
    } | sh -c "$command" | sed -n 's/.*"text":"\([0-9]*\)".*/\1/p'
)
echo "$server says: $number $thing"
form=$(sed -n 's/^ *\(THING.*NUMBER\)$/\1/p' "$SKILLS/stock-report/SKILL.md")
echo "$form" | sed "s/THING/$thing/; s/NUMBER/$number/" > report.txt
