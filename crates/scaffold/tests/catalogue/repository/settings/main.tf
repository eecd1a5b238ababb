# The shop's buckets.
terraform {
  required_version = ">= 1.5"
}

resource "aws_s3_bucket" "logs" {
  bucket = "old-logs" # renamed by hand
  tags = {
    team = "nobody"
  }
}

provider "aws" {
  alias  = "west"
  region = "us-west-2"
}

variable "region" {}
