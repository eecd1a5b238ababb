provider "aws" {
  region = {{ context.region | toJson }}
}

resource "aws_s3_bucket" "{{ context.bucket | snakecase }}" {
  bucket = "{{ context.bucket }}"
}
