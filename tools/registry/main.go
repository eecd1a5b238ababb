// Command registry is the OCI registry of the distribution project, built from its Go module for tests:
// its server with the storage on disk, and the two ways to sign in that tests use.
package main

import (
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"

	"os"

	"github.com/distribution/distribution/v3/registry"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
