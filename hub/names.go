package hub

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrName reports a name that cannot be the name of a model or of one of its files.
var ErrName = errors.New("cannot be the name of a file")

// maxName leaves room for the endings of state files within the 255 bytes that file systems have.
const maxName = 200

// reserved are characters that some file system or shell does not take in names.
const reserved = `/\:*?"<>|`

// windowsDevice are names of devices, which Windows opens in every directory and with every ending.
var windowsDevice = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// CheckName refuses a name that is not one plain element of a path on every system.
func CheckName(name string) error {
	bad := func(r rune) bool {
		return !unicode.IsPrint(r) || r == utf8.RuneError || strings.ContainsRune(reserved, r)
	}
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("a name of %d bytes %w: 1 to %d are possible", len(name), ErrName, maxName)
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("%q %w: it has a character that is not in names of files everywhere", name, ErrName)
	case name[0] == '.' || name[0] == '-' || name[0] == ' ' || name[len(name)-1] == '.' || name[len(name)-1] == ' ':
		return fmt.Errorf("%q %w: it begins or ends with a dot, a dash or a space", name, ErrName)
	case windowsDevice.MatchString(name):
		return fmt.Errorf("%q %w: it is the name of a device", name, ErrName)
	}
	return nil
}

// checkPath refuses a path from a server that leaves its directory or has an element that CheckName refuses.
func checkPath(name string) error {
	for element := range strings.SplitSeq(name, "/") {
		if err := CheckName(element); err != nil {
			return fmt.Errorf("path %q: %w", name, err)
		}
	}
	return nil
}

// partName matches the names of the parts of a split GGUF file.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// stem returns a file's name without its ending: that of a model, or of all parts of a split one.
func stem(file string) string {
	base := path.Base(file)
	if part := partName.FindStringSubmatch(base); part != nil {
		return part[1]
	}
	for _, ending := range []string{".gguf", packSuffix, ".safetensors"} {
		if name, ok := strings.CutSuffix(base, ending); ok {
			return name
		}
	}
	return base
}

// packSuffix is the ending of packs.
const packSuffix = ".pack"
