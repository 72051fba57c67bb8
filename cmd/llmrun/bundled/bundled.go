// Package bundled embeds the demo model in the llmrun command, so that the program answers
// without a download.
//
// Only commands import it: the weights add 30 MB to the binary, and a program that uses the
// llmrun library must not carry them.
package bundled

import (
	"embed"
	"io/fs"
)

//go:embed model
var files embed.FS

// FS holds the model as a Hugging Face directory called [Name]. Its files support reads at any
// offset, which copy only the bytes that are read.
var FS fs.FS = files

// Name is the directory of the model inside [FS].
const Name = "model"

// licenseFiles are the texts that must accompany the weights, in the order of Licenses.
var licenseFiles = []string{"LICENSES.txt", "ATTRIBUTION_african_storybook.txt"}

// Licenses returns the sources of the model's training text, their licences, and the required
// attributions.
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
