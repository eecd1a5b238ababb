resource "aws_db_instance" "postgres" {
  allocated_storage = 50
  engine            = "postgres"
  multi_az          = false
}

output "endpoint" {
  value = aws_db_instance.postgres.endpoint
}
