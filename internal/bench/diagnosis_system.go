package bench

import (
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// linuxSystem names the kernel and the distribution of a system whose files are in root.
func linuxSystem(root fs.FS, kernel string) string {
	words := []string{strings.ToUpper(kernel[:1]) + kernel[1:]}
	if release := firstLine(root, "proc/sys/kernel/osrelease"); release != "" {
		words = append(words, release)
	}
	for line := range strings.Lines(fileText(root, "etc/os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			words = append(words, "("+strings.Trim(name, `"'`)+")")
		}
	}
	return strings.Join(words, " ")
}

// linuxProcessor names the processor of a system whose files are in root: by its model, or by its cores and the
// board.
func linuxProcessor(root fs.FS) string {
	cores := map[string]bool{} // such as 0x41/0xd0b
	var designer string
	for line := range strings.Lines(fileText(root, "proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name":
			return strings.Join(strings.Fields(value), " ")
		case "CPU implementer":
			designer = value
		case "CPU part":
			cores[designer+"/"+value] = true
		}
	}
	words := []string{}
	if board := strings.Trim(firstLine(root, "proc/device-tree/model"), "\x00"); board != "" {
		words = append(words, board)
	}
	if len(cores) > 0 {
		words = append(words, "cores "+strings.Join(slices.Sorted(maps.Keys(cores)), ", "))
	}
	return strings.Join(words, ", ")
}

// loadOf returns the load average of the last minute of a system whose files are in root, 0 if it is unknown.
func loadOf(root fs.FS) float64 {
	first, _, _ := strings.Cut(firstLine(root, "proc/loadavg"), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// fileText returns the text of a small file, "" if it cannot be read.
func fileText(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// firstLine returns the first line of a small file.
func firstLine(root fs.FS, name string) string {
	line, _, _ := strings.Cut(fileText(root, name), "\n")
	return strings.TrimSpace(line)
}
