package main

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// longIDs returns a prompt that is long enough for the prefix cache: 20,27,34 and so on.
func longIDs() string {
	var ids []string
	for i := range 640 {
		ids = append(ids, strconv.Itoa(20+i*7%1000))
	}
	return strings.Join(ids, ",")
}

// scriptHolds implements "holds DIR TEXT...", which succeeds if each text is in the content or
// in the name of a file below the directory, and "! holds DIR TEXT...", which succeeds if none
// is. Numbers with commas are token ids.
func scriptHolds(ts *testscript.TestScript, negated bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] holds DIR TEXT...")
	}
	dir := ts.MkAbs(args[0])
	for _, text := range args[1:] {
		var in []string
		ts.Check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			if bytes.Contains(data, stored(text)) || strings.Contains(name, text) {
				in = append(in, name)
			}
			return err
		}))
		if negated == (len(in) > 0) {
			ts.Fatalf("%q is in the files %q of %s", text, in, args[0])
		}
	}
}

// stored returns the bytes of a text on the disk, or of token ids.
func stored(text string) (b []byte) {
	for _, number := range strings.Split(text, ",") {
		id, err := strconv.Atoi(number)
		if err != nil {
			return []byte(text)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}
