# The shop's buckets.
terraform {
  required_version = ">= 1.5"

  backend "s3" {
    bucket = "a \"b\": c-state"
  }
}

resource "aws_s3_bucket" "logs" {
  tags = {
    team = "a \"b\": c"
  }
}

provider "aws" {
  alias  = "west"
  region = var.region
}

variable "region" {}

module "shop" {
  replicas = 5
  source = "./shop"
}
