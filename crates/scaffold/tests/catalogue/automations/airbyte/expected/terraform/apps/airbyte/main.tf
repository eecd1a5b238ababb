provider "google" {
  region = "europe-west3"
}

resource "google_storage_bucket" "fleet_airbyte" {
  name = "fleet-airbyte"
}
