# The stack of the demo, for OpenTofu: a resource of the kind that is built in, so that no provider is needed.

variable "greeting" {
  type    = string
  default = "hello"
}

resource "terraform_data" "network" {
  input = "a network for ${var.greeting}"
}

resource "terraform_data" "database" {
  input = "a database in ${terraform_data.network.output}"
}

output "database" {
  value = terraform_data.database.output
}
