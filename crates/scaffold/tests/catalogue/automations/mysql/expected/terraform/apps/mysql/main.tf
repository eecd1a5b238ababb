resource "aws_db_instance" "mysql" {
  allocated_storage = 50
  engine            = "mysql"
  multi_az          = true
}

output "endpoint" {
  value = aws_db_instance.mysql.endpoint
}
