// Command release packs built programs for download: an archive for each system, Debian packages, an SBOM, and SHA256SUMS.
// The same programs, files and time give the same bytes.
//
//	go run ./internal/release -version v1.2.3 -time 1700000000 -extras DIR -out dist/release dist/llmrun-*
//
// The time is in seconds since 1970, as in SOURCE_DATE_EPOCH. The directory of -extras holds what every archive gets
// beside the program, the README and the licence: completions and manual pages.
package main

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	r := release{level: gzip.BestCompression}
	var seconds int64
	flag.StringVar(&r.version, "version", "", "version, such as v1.2.3")
	flag.Int64Var(&seconds, "time", 0, "time of all files, in seconds since 1970")
	flag.StringVar(&r.extras, "extras", "", "directory of completions and manual pages")
	flag.StringVar(&r.out, "out", "dist/release", "directory to write")
	flag.Parse()
	r.time = time.Unix(seconds, 0).UTC()
	if err := r.make(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is written of the programs of one version.
type release struct {
	version, extras, out string
	time                 time.Time
	level                int // of compression
}

// A program is a built program with the system that its name tells: llmrun-linux-amd64 or llmrun-windows-amd64.exe.
type program struct {
	path, os, arch string
	data           []byte
}

// A file is a file of an archive.
type file struct {
	name string // with slashes
	mode fs.FileMode
	data []byte
}

// openProgram reads a program.
func openProgram(name string) (program, error) {
	fields := strings.Split(strings.TrimSuffix(filepath.Base(name), ".exe"), "-")
	if len(fields) != 3 || fields[0] != "llmrun" {
		return program{}, fmt.Errorf("%s: the name must look like llmrun-linux-amd64", name)
	}
	data, err := os.ReadFile(name)
	return program{name, fields[1], fields[2], data}, err
}

func (r *release) make(names []string) error {
	if r.version == "" || len(names) == 0 {
		return fmt.Errorf("give -version and the built programs")
	}
	common, err := r.commonFiles()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var bill sbom
	written := map[string][]byte{}
	slices.Sort(names)
	for _, name := range names {
		p, err := openProgram(name)
		if err != nil {
			return err
		}
		if err := bill.add(&p); err != nil {
			return err
		}
		archive, data, err := r.archive(&p, common)
		if err != nil {
			return err
		}
		written[archive] = data
		if p.os == "linux" {
			deb, data, err := r.debian(&p, common)
			if err != nil {
				return err
			}
			written[deb] = data
		}
	}
	if written["llmrun.spdx.json"], err = bill.encode(r.version, r.time); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join("scripts", "install.sh"))
	if err != nil {
		return err
	}
	written["install.sh"] = script
	return r.write(written)
}

// write writes the files, and their sums.
func (r *release) write(files map[string][]byte) error {
	var sums strings.Builder
	for _, name := range slices.Sorted(mapKeys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		if err := os.WriteFile(filepath.Join(r.out, name), files[name], 0o644); err != nil {
			return err
		}
		fmt.Printf("%-36s %6.1f MB\n", name, float64(len(files[name]))/1e6)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// mapKeys returns the keys of a map.
func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

// commonFiles returns the files that every archive has.
func (r *release) commonFiles() ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	if r.extras == "" {
		return files, nil
	}
	root := os.DirFS(r.extras)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, file{name, 0o644, data})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, err
}

// archive returns the archive of a program: a zip for Windows, and a compressed tar for the others.
func (r *release) archive(p *program, common []file) (name string, data []byte, err error) {
	dir := fmt.Sprintf("llmrun-%s-%s", p.os, p.arch)
	binary := file{"llmrun", 0o755, p.data}
	if p.os == "windows" {
		binary.name += ".exe"
	}
	var files []file
	for _, f := range append([]file{binary}, common...) {
		f.name = path.Join(dir, f.name)
		files = append(files, f)
	}
	if p.os == "windows" {
		data, err = zipOf(files, r.time, r.level)
		return dir + ".zip", data, err
	}
	data, err = tarOf("", files, r.time, r.level)
	return dir + ".tar.gz", data, err
}
