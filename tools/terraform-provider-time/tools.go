//go:build tools

// Package tools names what is built here, so that go.mod keeps it.
package tools

import _ "github.com/hashicorp/terraform-provider-time"
