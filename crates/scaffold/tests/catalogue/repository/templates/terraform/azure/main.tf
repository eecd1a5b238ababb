provider "azurerm" {
  features {}
}

resource "azurerm_storage_container" "{{ context.bucket | snakecase }}" {
  name = "{{ context.bucket }}"
}
