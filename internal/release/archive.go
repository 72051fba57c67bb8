package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// tarOf returns a compressed tar whose files belong to root. Their names follow prefix.
func tarOf(prefix string, files []file, at time.Time, level int) ([]byte, error) {
	var buffer bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buffer, level)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(compressed)
	made := map[string]bool{}
	for _, f := range files {
		if err := addParents(out, prefix, made, path.Dir(f.name), at); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := out.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(out.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// addParents writes the directories above a file, once each.
func addParents(out *tar.Writer, prefix string, made map[string]bool, dir string, at time.Time) error {
	if dir == "." || made[dir] {
		return nil
	}
	made[dir] = true
	if err := addParents(out, prefix, made, path.Dir(dir), at); err != nil {
		return err
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755, ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR})
}

// zipOf returns a zip.
func zipOf(files []file, at time.Time, level int) ([]byte, error) {
	var buffer bytes.Buffer
	out := zip.NewWriter(&buffer)
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		w, err := out.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// arOf returns an archive of ar, the container of Debian packages.
func arOf(files []file, at time.Time) []byte {
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", f.name, at.Unix(), 0, 0, 0o100000|f.mode.Perm(), len(f.data))
		out.Write(f.data)
		if len(f.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
