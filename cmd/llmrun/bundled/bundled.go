// Package bundled carries the demo model inside the llmrun command, so that
// the program answers before anything has been downloaded.
//
// Only the command imports it: the weights are 30 MB of the binary, and a
// program that uses the llmrun library must not pay for them.
package bundled

import (
	"embed"
	"io/fs"
)

//go:embed model
var files embed.FS

// FS holds the model as a Hugging Face directory called [Name]. Its files can
// be read at any offset without copying the whole of them first.
var FS fs.FS = files

// Name is the directory of the model inside [FS].
const Name = "model"

// licenseFiles are the texts that have to travel with the weights, in the
// order in which they are shown.
var licenseFiles = []string{"LICENSES.txt", "ATTRIBUTION_african_storybook.txt"}

// Licenses returns where the model's training text comes from, under which
// licences, and the attributions that those licences ask for.
func Licenses() (string, error) {
	var text []byte
	for _, name := range licenseFiles {
		part, err := files.ReadFile(Name + "/" + name)
		if err != nil {
			return "", err
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, part...)
	}
	return string(text), nil
}
