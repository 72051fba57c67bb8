package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// debian returns the Debian package of a Linux program. dpkg names architectures as Go does here.
func (r *release) debian(p *program, common []file) (name string, data []byte, err error) {
	files, err := debianFiles(p, common, r.time)
	if err != nil {
		return "", nil, err
	}
	content, err := tarOf("./", files, r.time, r.level)
	if err != nil {
		return "", nil, err
	}
	control, err := tarOf("./", []file{
		{"control", 0o644, []byte(debianControl(debianVersion(r.version), p.arch, files))},
		{"md5sums", 0o644, md5sums(files)},
	}, r.time, r.level)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("llmrun_%s.deb", p.arch), arOf([]file{
		{"debian-binary", 0o644, []byte("2.0\n")}, {"control.tar.gz", 0o644, control}, {"data.tar.gz", 0o644, content},
	}, r.time), nil
}

// debianFiles returns the files of the package at their places in the system.
func debianFiles(p *program, common []file, at time.Time) (files []file, err error) {
	files = []file{{"usr/bin/llmrun", 0o755, p.data}}
	for _, f := range common {
		base := path.Base(f.name)
		switch dir := path.Dir(f.name); {
		case f.name == "LICENSE":
			f.name = "usr/share/doc/llmrun/copyright"
		case dir == ".":
			f.name = "usr/share/doc/llmrun/" + base
		case base == "llmrun.bash":
			f.name = "usr/share/bash-completion/completions/llmrun"
		case base == "_llmrun":
			f.name = "usr/share/zsh/vendor-completions/_llmrun"
		case base == "llmrun.fish":
			f.name = "usr/share/fish/vendor_completions.d/llmrun.fish"
		case strings.HasSuffix(base, ".1"):
			f.name = "usr/share/man/man1/" + base + ".gz"
			if f.data, err = compressed(f.data, at); err != nil {
				return nil, err
			}
		default:
			continue // of other systems
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// compressed returns data as gzip does without a name.
func compressed(data []byte, at time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if w.ModTime = at; at.Unix() <= 0 {
		w.ModTime = time.Time{}
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// behindTag is what git describe adds to the nearest tag.
var behindTag = regexp.MustCompile(`(?:-\d+-g[0-9a-f]+)?(?:-dirty)?$`)

// debianVersion returns a version of Debian, which begins with a digit: that of a tag, or 0 and the commit.
func debianVersion(version string) string {
	version = strings.TrimPrefix(version, "v")
	if base := behindTag.ReplaceAllString(version, ""); strings.Contains(base, ".") {
		// A tag such as 1.2.3-rc1 is before 1.2.3, and commits behind a tag are after it.
		version = strings.Replace(base, "-", "~", 1) + version[len(base):]
	}
	var clean strings.Builder
	for _, c := range version {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune(".+~", c) {
			clean.WriteRune(c)
		} else {
			clean.WriteByte('+')
		}
	}
	if version == "" || version[0] < '0' || version[0] > '9' || !strings.Contains(version, ".") { // a commit may begin with a digit
		return "0~" + clean.String()
	}
	return clean.String()
}

// debianControl describes the package.
func debianControl(version, arch string, files []file) string {
	size := 0
	for _, f := range files {
		size += (len(f.data) + 1023) / 1024
	}
	return fmt.Sprintf(`Package: llmrun
Version: %s
Architecture: %s
Maintainer: the llmrun project
Installed-Size: %d
Section: utils
Priority: optional
Recommends: ca-certificates
Homepage: https://github.com/llmrun/llmrun
Description: language models in less memory than they have
 llmrun runs language models on the CPU. It keeps part of the weights in memory
 and streams the rest from flash, so that a model may be larger than memory. It
 is one static program with a small demo model.
`, version, arch, size)
}

// md5sums returns the sums that dpkg verifies installed files with.
func md5sums(files []file) []byte {
	var sums bytes.Buffer
	for _, f := range files {
		sum := md5.Sum(f.data)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.name)
	}
	return sums.Bytes()
}
