provider "aws" {
  region = "us-east-1"
}

resource "aws_s3_bucket" "fleet_airflow" {
  bucket = "fleet-airflow"
}
