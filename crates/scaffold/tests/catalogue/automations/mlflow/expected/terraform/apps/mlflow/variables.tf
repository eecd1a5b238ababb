variable "cluster" {
  type = string
}
