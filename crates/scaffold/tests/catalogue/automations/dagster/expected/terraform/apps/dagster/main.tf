provider "aws" {
  region = "eu-central-1"
}

resource "aws_s3_bucket" "blue_dagster" {
  bucket = "blue-dagster"
}
