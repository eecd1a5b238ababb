resource "aws_db_instance" "postgres_flow" {
  allocated_storage = 20
  engine            = "postgres"
  multi_az          = false
}

output "endpoint" {
  value = aws_db_instance.postgres_flow.endpoint
}
