// Package bundled embeds the demo model in the llmrun command, so that the program answers
// without a download.
//
// Only commands import it: the weights add 30 MB to the binary, and a program that uses the
// llmrun library must not carry them.
package bundled

import (
	_ "embed"
	"io/fs"

	"github.com/llmrun/llmrun/store/vfs"
)

//go:embed model.pack
var packed string

// FS holds the model as a pack called [Name]. Its files are read from the program's own file,
// so that a memory budget holds for the bundled model too: only the bytes that are read are
// in memory.
var FS fs.FS = vfs.Embedded(Name, packed)

// Name is the model inside [FS]. Listings of sessions and measurements show it.
const Name = "model"

// Program returns the path of this program's own file.
func Program() (string, error) { return vfs.ProgramOf(packed) }

// The texts that must accompany the weights.
var (
	//go:embed LICENSES.txt
	licenses string
	//go:embed ATTRIBUTION_african_storybook.txt
	attribution string
)

// Licenses returns the sources of the model's training text, their licences, and the required
// attributions.
func Licenses() string { return licenses + "\n" + attribution }
