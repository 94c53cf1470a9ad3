#!/bin/bash
total=0
for amount in $(ask GET orders); do total=$((total + amount)); done
ask PUT total $total
