# The stack of the demo, where OpenTofu is not in PATH: what it prints is the plan.
echo "would make a network and a database for $(cat greeting.txt)"
