provider "google" {
  region = {{ context.region | toJson }}
}

resource "google_storage_bucket" "{{ context.bucket | snakecase }}" {
  name = "{{ context.bucket }}"
}
