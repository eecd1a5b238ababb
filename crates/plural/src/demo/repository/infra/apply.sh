# Runs once somebody has approved what plan.sh printed.
echo "made a network and a database for $(cat greeting.txt)"
