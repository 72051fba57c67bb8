package testutil

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// unpackedSets maps a set to its directory. It holds the sets that this process has
// unpacked.
var unpackedSets = struct {
	sync.Mutex
	dirs map[string]string
}{dirs: map[string]string{}}

// cacheDir is the parent directory of unpacked sets. It is computed at process start,
// because tests change the environment.
var cacheDir = func() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "llmrun-testdata")
}()

// unpacked returns the directory with the unpacked files of testdata/set. The name of
// the directory contains a hash of the archives. Test processes and checkouts therefore
// share the directory, and a changed archive results in a new one. A set without
// archives is used in place.
func unpacked(tb testing.TB, root, set string) string {
	tb.Helper()
	unpackedSets.Lock()
	defer unpackedSets.Unlock()
	packed := filepath.Join(root, "testdata", set)
	if dir, ok := unpackedSets.dirs[packed]; ok {
		return dir
	}
	dir, err := unpackSet(packed, cacheDir)
	if err != nil {
		tb.Fatalf("unpack testdata/%s: %v", set, err)
	}
	unpackedSets.dirs[packed] = dir
	return dir
}

// unpackSet unpacks a set below cache, unless the cache has it, and returns its
// directory.
func unpackSet(packed, cache string) (string, error) {
	hash, archives, err := hashSet(packed)
	if err != nil || !archives {
		return packed, err
	}
	target := filepath.Join(cache, filepath.Base(packed)+"-"+hash)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(cache, "partial-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(partial) }() // no effect after the rename
	if err := unpackFiles(packed, partial); err != nil {
		return "", err
	}
	// The rename makes the set visible only when it is complete. It fails if another
	// process has unpacked the set first.
	if err := os.Rename(partial, target); err != nil {
		if _, missing := os.Stat(target); missing != nil {
			return "", err
		}
	}
	return target, nil
}

// hashSet returns a hash of the names and contents of all files of a set, and whether
// the set has an archive. A set that does not exist is empty.
func hashSet(packed string) (hash string, archives bool, err error) {
	sum := sha256.New()
	err = walkSet(packed, func(name string, file io.Reader) error {
		if _, kind := splitArchive(name); kind != "" {
			archives = true
		}
		fmt.Fprintf(sum, "%d %s ", len(name), name)
		content := sha256.New()
		_, err := io.Copy(content, file)
		sum.Write(content.Sum(nil))
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), archives, err
}

// unpackFiles unpacks the archives of a set below target and copies its other files.
func unpackFiles(packed, target string) error {
	return walkSet(packed, func(name string, file io.Reader) error {
		base, kind := splitArchive(name)
		path := filepath.Join(target, filepath.FromSlash(base))
		switch kind {
		case "":
			return writeFile(path, file)
		case ".bz2", ".tar.bz2":
			file = bzip2.NewReader(file)
		default:
			unzipped, err := gzip.NewReader(file)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			file = unzipped
		}
		write := writeFile
		if strings.HasPrefix(kind, ".tar") {
			write = unpackTar
		}
		if err := write(path, file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// splitArchive splits a file name into the name of the unpacked file and the suffix of
// the archive. The suffix is "" for other files.
func splitArchive(name string) (base, kind string) {
	for _, kind := range []string{".tar.gz", ".tar.bz2", ".gz", ".bz2"} {
		if base, ok := strings.CutSuffix(name, kind); ok {
			return base, kind
		}
	}
	return name, ""
}

// walkSet calls visit for every file of a set in the order of the names. The names are
// relative to the set and use slashes.
func walkSet(packed string, visit func(name string, file io.Reader) error) error {
	err := fs.WalkDir(os.DirFS(packed), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(filepath.Join(packed, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer file.Close()
		return visit(name, file)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the set does not exist in testdata
	}
	return err
}

// unpackTar writes the regular files of a tar archive below dir.
func unpackTar(dir string, archive io.Reader) error {
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("the path %s is outside the archive", header.Name)
		}
		if err := writeFile(filepath.Join(dir, header.Name), files); err != nil {
			return err
		}
	}
}

// writeFile writes a read-only file and creates its parent directories.
func writeFile(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
