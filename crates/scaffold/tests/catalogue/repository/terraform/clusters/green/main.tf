module "green" {
  source = "../../modules/cluster"
}
