provider "azurerm" {
  features {}
}

resource "azurerm_storage_container" "flows" {
  name = "flows"
}
