# restock.sh AISLES < slips: spreads the slips over the aisles, each in a file of its own.
n=0
while read -r line; do
    aisle=$((n % $1 + 1))
    mkdir -p "aisle-$aisle"
    printf '%s\n' "$line" > "aisle-$aisle/slip-$n.txt"
    n=$((n + 1))
done
