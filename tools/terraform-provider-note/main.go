// Command terraform-provider-note is a provider for tests. A note is a file whose content lies in the state: one that somebody
// edits was updated, while to the provider of local files it is gone.
package main

import (
	"os"

	"github.com/hashicorp/terraform-plugin-sdk/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/plugin"
	"github.com/hashicorp/terraform-plugin-sdk/terraform"
)

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: func() terraform.ResourceProvider {
		return &schema.Provider{ResourcesMap: map[string]*schema.Resource{"note_file": file()}}
	}})
}

func file() *schema.Resource {
	return &schema.Resource{
		Create: write,
		Read:   read,
		Update: write,
		Delete: remove,
		Schema: map[string]*schema.Schema{
			"filename": {Type: schema.TypeString, Required: true, ForceNew: true},
			"content":  {Type: schema.TypeString, Required: true},
		},
	}
}

func write(data *schema.ResourceData, _ interface{}) error {
	name := data.Get("filename").(string)
	if err := os.WriteFile(name, []byte(data.Get("content").(string)), 0o600); err != nil {
		return err
	}
	data.SetId(name)
	return nil
}

func read(data *schema.ResourceData, _ interface{}) error {
	content, err := os.ReadFile(data.Id())
	if os.IsNotExist(err) {
		data.SetId("")
		return nil
	}
	if err != nil {
		return err
	}
	return data.Set("content", string(content))
}

func remove(data *schema.ResourceData, _ interface{}) error {
	err := os.Remove(data.Id())
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
