resource "aws_db_instance" "{{ context.app | snakecase }}" {
  allocated_storage = {{ context.storage }}
  engine            = {{ context.engine | toJson }}
  multi_az          = {{ context.highlyAvailable }}
}

output "endpoint" {
  value = aws_db_instance.{{ context.app | snakecase }}.endpoint
}
