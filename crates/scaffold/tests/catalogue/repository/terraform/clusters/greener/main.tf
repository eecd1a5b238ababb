module "greener" {}
